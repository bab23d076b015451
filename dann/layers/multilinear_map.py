import math

import keras
from keras import ops

from dann.checks import check_integer, check_shape


@keras.saving.register_keras_serializable("dann")
class MultilinearMap(keras.layers.Layer):
    """Returns the products of all features with all predictions.

    A discriminator of these products depends on the distribution of the features within each class.
    A discriminator of concatenated features and predictions may ignore the predictions.

    With features `f` of length `F` and predictions `g` of length `C`

    - exact, if `F * C <= max_units`: `y[i * C + j] = f[i] * g[j]`
    - randomized, otherwise: `y = (f R_f) * (g R_g) / sqrt(max_units)`, elementwise

    `R_f` and `R_g` are drawn once from the standard normal distribution and stored in non-trainable
    weights, which are saved. The expected inner products of the randomized form are equal to the
    inner products of the exact form. Both inputs get gradients.

    Args:
        max_units: Maximum length of the output, at least 1. Defaults to `4096`.
        seed: Seed of `R_f` and `R_g`, an integer. With `None` (default) they depend on
            `keras.utils.set_random_seed`.

    Call arguments:
        inputs: Pair of tensors, the features and the predictions.

    Input shape:
        A pair `(batch, F)`, `(batch, C)`.

    Output shape:
        `(batch, min(F * C, max_units))`.

    Example:

    >>> import keras
    >>> from dann.layers import MultilinearMap
    >>> features, predictions = keras.ops.array([[1.0, 2.0]]), keras.ops.array([[0.25, 0.75]])
    >>> [float(value) for value in MultilinearMap()([features, predictions])[0]]
    [0.25, 0.75, 0.5, 1.5]

    Reference:
        - [Long et al., 2018](https://arxiv.org/abs/1705.10667), section 3.
    """

    def __init__(self, max_units: int = 4096, seed: int | None = None, **kwargs):
        super().__init__(**kwargs)
        self.max_units = check_integer("max_units", max_units, low=1)
        self.seed = seed
        self.projections = None

    def build(self, input_shape):
        lengths = _get_lengths(input_shape)
        if math.prod(lengths) <= self.max_units:
            return
        # The same seed would draw the same numbers for both projections.
        seeds = (None, None) if self.seed is None else (2 * self.seed, 2 * self.seed + 1)
        names = ("feature_projection", "prediction_projection")
        self.projections = [
            self.add_weight(
                name=name,
                shape=(length, self.max_units),
                initializer=keras.initializers.RandomNormal(stddev=1.0, seed=seed),
                trainable=False,
            )
            for name, length, seed in zip(names, lengths, seeds, strict=True)
        ]

    def call(self, inputs):
        features, predictions = inputs
        if self.projections is None:
            # (batch, F, 1) * (batch, 1, C)
            products = ops.expand_dims(features, 2) * ops.expand_dims(predictions, 1)
            return ops.reshape(products, (-1, products.shape[1] * products.shape[2]))
        feature_projection, prediction_projection = self.projections
        # Scaled before the product, which could overflow in float16.
        scaled = ops.matmul(features, feature_projection) / math.sqrt(self.max_units)
        return scaled * ops.matmul(predictions, prediction_projection)  # (batch, max_units)

    def compute_output_shape(self, input_shape):
        return (input_shape[0][0], min(math.prod(_get_lengths(input_shape)), self.max_units))

    def get_config(self):
        return {**super().get_config(), "max_units": self.max_units, "seed": self.seed}


def _get_lengths(input_shape):
    features, predictions = input_shape
    check_shape("features", features, ("batch", "num_features"))
    check_shape("predictions", predictions, ("batch", "num_classes"))
    return features[1], predictions[1]
