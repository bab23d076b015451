import keras
from keras import ops

from dann.checks import check_choice, check_number


@keras.saving.register_keras_serializable("dann")
class DomainBlend(keras.layers.Layer):
    """Blends each source image with an unlabeled target image in training.

    With a random `m` per example, uniform from 0 to `factor`, and depending on `rule`

    - `"difference"`: `y = |x_s - m x_t|`; MNIST-M is this blend of digits and photos with `m = 1`
    - `"sum"`: `y = (1 - m) x_s + m x_t`, the domain mixup

    The labeled source images then have the background of target images. Before the blend, the
    layer shifts the target images cyclically in height and width, by distances between a third and
    two thirds of the side, drawn once per batch. This moves objects of the target from the center
    to the edges, away from the objects of the source.

    To use the layer in a method, pass it as `augmentation={"blend": layer}`; see
    `dann.adaptation.AdversarialModel`. It runs after the augmentation of both domains.

    Args:
        factor: Largest weight `m` of the target image, above 0 and at most 1. Defaults to `1.0`.
        roll: Whether the target images are shifted. Defaults to `True`.
        seed: Seed of the random numbers. Defaults to `None`, a random seed.
        rule: `"difference"` (default) or `"sum"`.

    Input shape:
        A list of source and target images, both `(batch, height, width, channels)`. The values must
        be at least 0 for the difference. If there are fewer target images than source images, they
        repeat from the first.

    Output shape:
        The same as the source images, in the compute type of the layer. In inference the output is
        the source images.

    Raises:
        ValueError: If an argument is out of range, or the domains differ in their channels.

    Example:

    >>> import numpy as np
    >>> from dann.layers import DomainBlend
    >>> digits, photos = np.full((1, 2, 2, 1), 255.0), np.full((1, 2, 2, 1), 100.0)
    >>> blended = np.array(DomainBlend(0.5)([digits, photos], training=True))
    >>> bool(blended.min() > 204), bool(blended.max() <= 255)
    (True, True)

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), section 5.2.4: the blend.
        - [Xu et al., 2020](https://arxiv.org/abs/1912.01805), section 3.2: weighted sums of source
          images and unlabeled target images.
    """

    def __init__(
        self,
        factor: float = 1.0,
        roll: bool = True,
        seed: int | None = None,
        rule: str = "difference",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.factor = check_number("factor", factor, low=0, high=1, exclude_low=True)
        self.roll = roll
        self.rule = check_choice("rule", rule, ("difference", "sum"))
        self.seed = seed
        self.generator = keras.random.SeedGenerator(seed)

    def call(self, inputs, training=False):
        source, target = (ops.cast(images, self.compute_dtype) for images in inputs)
        if source.shape[-1] != target.shape[-1]:
            raise ValueError(
                "Expected images of both domains with the same number of channels. "
                f"Received: {source.shape[-1]} and {target.shape[-1]}"
            )
        if not training:
            return source
        examples = ops.arange(ops.shape(source)[0])
        target = ops.take(target, examples % ops.shape(target)[0], axis=0)
        # Between a third and two thirds: objects in the center move to the edges.
        for axis in (1, 2) if self.roll else ():
            length = ops.shape(target)[axis]
            shift = keras.random.randint((), length // 3, 2 * length // 3 + 1, seed=self.generator)
            target = ops.take(target, (ops.arange(length) + shift) % length, axis=axis)
        shape = (ops.shape(source)[0], 1, 1, 1)  # one weight per example
        weight = keras.random.uniform(shape, 0.0, self.factor, source.dtype, self.generator)
        if self.rule == "sum":
            return source + weight * (target - source)
        return ops.abs(source - weight * target)

    def compute_output_shape(self, input_shape):
        return input_shape[0]

    def get_config(self):
        return {
            **super().get_config(),
            "factor": self.factor,
            "roll": self.roll,
            "seed": self.seed,
            "rule": self.rule,
        }
