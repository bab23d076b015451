import keras

from dann.gradients import binary_sign
from dann.gradients.sign import WAYS
from dann.gradients.ways import check_way


@keras.saving.register_keras_serializable("dann")
class BinarySign(keras.layers.Layer):
    """Replaces each input by its sign, +1 or -1, and trains through it.

    - forward: `y = +1` where `x >= 0`, else `-1`
    - backward: the gradient of Htanh, `1` where `|x| <= 1`, else `0`

    Args:
        way: How the gradient is built: `"override"` (default), `"stop_gradient"` or, on
            TensorFlow, `"op_override"`. They agree in value and gradient; see
            `dann.gradients.binary_sign`.

    Input shape:
        Any.

    Output shape:
        The same as the input.

    Raises:
        ValueError: If `way` is unknown.

    Example:

    >>> import keras
    >>> from dann.layers import BinarySign
    >>> [float(value) for value in BinarySign()(keras.ops.array([-0.3, 0.0, 2.0]))]
    [-1.0, 1.0, 1.0]

    Reference:
        - [Hubara et al., 2016](https://arxiv.org/abs/1602.02830), equations 1 and 4.
    """

    def __init__(self, way: str = "override", **kwargs):
        super().__init__(**kwargs)
        self.way = check_way(way, WAYS)
        self.supports_masking = True
        self.built = True

    def call(self, inputs):
        return binary_sign(inputs, way=self.way)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "way": self.way}
