from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from dann.checks import check_number, check_value_range


@keras.saving.register_keras_serializable("dann")
class RandomConvolution(keras.layers.Layer):
    """Convolves images with a random kernel in training: other colours and textures.

    With images `x`, whose values are taken from `value_range` to [-1, 1], one draw a batch of the
    kernel size `k` and of `w ~ Normal(0, 1 / (k^2 channels))`, `(k, k, channels, channels)`, and
    of `a ~ Uniform(0, 1)` for each example,

    - `y = a x + (1 - a) w * x`

    which is taken back to `value_range` and may leave it. A kernel of size 1 only mixes and weighs
    the channels; larger ones blur, sharpen and draw edges. About half of all kernels turn bright
    into dark. Shapes stay what they are, so the labels do, too.

    Args:
        kernel_sizes: Odd sizes to draw from. Defaults to `(1, 3, 5, 7)`, as in the paper.
        rate: Share of batches that are changed, from 0 to 1. Defaults to `0.5`.
        value_range: Smallest and largest pixel value. Defaults to `(0, 255)`.
        seed: Seed of the draws. Defaults to a random one.

    Input shape:
        Images `(batch, height, width, channels)`.

    Output shape:
        That of the images, in the type that the layer computes in. In inference their values do
        not change.

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
                f"Argument `kernel_sizes` must hold odd sizes. Received: {tuple(kernel_sizes)}"
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
        x = (images - middle) / half
        share = self._shares(ops.shape(x)[0], x.dtype)
        convolved = ops.conv(
            x, self._kernel(x.shape[-1], x.dtype), padding="same", data_format="channels_last"
        )
        return middle + half * (share * x + (1 - share) * convolved)

    def compute_output_shape(self, input_shape):
        return input_shape

    def _shares(self, count, dtype):
        """The share of itself that each image keeps, all 1 in a batch that is not changed."""
        shares = keras.random.uniform((count, 1, 1, 1), dtype=dtype, seed=self.generator)
        changed = keras.random.uniform((), dtype=dtype, seed=self.generator) < self.rate
        return ops.where(changed, shares, ops.ones_like(shares))

    def _kernel(self, channels, dtype):
        """A kernel in the middle of zeros, as large as the largest size."""
        largest = max(self.kernel_sizes)
        masks = np.zeros((len(self.kernel_sizes), largest, largest, 1, 1))
        for mask, size in zip(masks, self.kernel_sizes, strict=True):
            start = (largest - size) // 2
            mask[start : start + size, start : start + size] = (size * size * channels) ** -0.5
        which = keras.random.randint((), 0, len(masks), seed=self.generator)
        shape = (largest, largest, channels, channels)
        drawn = keras.random.normal(shape, dtype=dtype, seed=self.generator)
        return drawn * ops.take(ops.cast(masks, dtype), which, axis=0)

    def get_config(self):
        return {
            **super().get_config(),
            "kernel_sizes": self.kernel_sizes,
            "rate": self.rate,
            "value_range": self.value_range,
            "seed": self.seed,
        }
