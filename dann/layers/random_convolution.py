from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from dann.checks import check_number, check_value_range


@keras.saving.register_keras_serializable("dann")
class RandomConvolution(keras.layers.Layer):
    """Convolves images with a random kernel in training, to change their colors and textures.

    The layer maps the values of images `x` from `value_range` to [-1, 1]. With one kernel size `k`
    and one kernel `w ~ Normal(0, 1 / (k^2 channels))`, `(k, k, channels, channels)`, per batch and
    `a ~ Uniform(0, 1)` per example,

    - `y = a x + (1 - a) w * x`

    which is mapped back to `value_range` and may exceed it. A kernel of size 1 only mixes and
    weights the channels; larger kernels blur, sharpen and enhance edges. About half of all kernels
    invert brightness. The shapes of objects are preserved, so labels stay valid.

    Args:
        kernel_sizes: Odd sizes, one of which is drawn per batch. Defaults to `(1, 3, 5, 7)`, as in
            the paper.
        rate: Fraction of batches that are changed, from 0 to 1. Defaults to `0.5`.
        value_range: Smallest and largest pixel value. Defaults to `(0, 255)`.
        seed: Seed of the random numbers. Defaults to `None`, a random seed.

    Input shape:
        Images `(batch, height, width, channels)`.

    Output shape:
        The same as the input, in the compute type of the layer. In inference the values do not
        change.

    Raises:
        ValueError: If a size is even or an argument is out of its range.

    Example:

    >>> import numpy as np
    >>> from dann.layers import RandomConvolution
    >>> images = np.full((2, 8, 8, 3), 100.0)
    >>> RandomConvolution(rate=1.0)(images, training=True).shape == images.shape
    True

    Reference:
        - [Xu et al., 2021](https://arxiv.org/abs/2007.13003), section 3; the mixed variant.
    """

    def __init__(
        self,
        kernel_sizes: Sequence[int] = (1, 3, 5, 7),
        rate: float = 0.5,
        value_range: Sequence[float] = (0, 255),
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.kernel_sizes = list(kernel_sizes)
        if not self.kernel_sizes or any(size % 2 != 1 for size in self.kernel_sizes):
            raise ValueError(
                "Expected `kernel_sizes` to contain odd sizes. "
                f"Received: kernel_sizes={tuple(kernel_sizes)}"
            )
        self.rate = check_number("rate", rate, low=0, high=1)
        self.value_range = check_value_range("value_range", value_range)
        self.seed = seed
        self.generator = keras.random.SeedGenerator(seed)

    def call(self, inputs, training=False):
        images = ops.cast(inputs, self.compute_dtype)
        if not training or not self.rate:
            return images
        low, high = self.value_range
        middle, half = (low + high) / 2, (high - low) / 2
        x = (images - middle) / half  # in [-1, 1]
        weight = self._draw_weights(ops.shape(x)[0], x.dtype)
        kernel = self._draw_kernel(x.shape[-1], x.dtype)
        convolved = ops.conv(x, kernel, padding="same", data_format="channels_last")
        return middle + half * (weight * x + (1 - weight) * convolved)

    def compute_output_shape(self, input_shape):
        return input_shape

    def _draw_weights(self, count, dtype):
        """Returns the weight of each original image, which is 1 in a batch that is not changed."""
        weights = keras.random.uniform((count, 1, 1, 1), dtype=dtype, seed=self.generator)
        is_changed = keras.random.uniform((), dtype=dtype, seed=self.generator) < self.rate
        return ops.where(is_changed, weights, ops.ones_like(weights))

    def _draw_kernel(self, channels, dtype):
        """Returns a kernel of a random size, padded with zeros to the largest size."""
        largest = max(self.kernel_sizes)
        masks = np.zeros((len(self.kernel_sizes), largest, largest, 1, 1))  # one kernel per size
        for mask, size in zip(masks, self.kernel_sizes, strict=True):
            start = (largest - size) // 2
            # This standard deviation preserves the variance of the images.
            mask[start : start + size, start : start + size] = (size * size * channels) ** -0.5
        index = keras.random.randint((), 0, len(masks), seed=self.generator)
        shape = (largest, largest, channels, channels)
        values = keras.random.normal(shape, dtype=dtype, seed=self.generator)
        return values * ops.take(ops.cast(masks, dtype), index, axis=0)

    def get_config(self):
        return {
            **super().get_config(),
            "kernel_sizes": self.kernel_sizes,
            "rate": self.rate,
            "value_range": self.value_range,
            "seed": self.seed,
        }
