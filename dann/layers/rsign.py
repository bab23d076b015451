import keras
from keras import ops

from dann.gradients.estimators import Estimator
from dann.layers.binary_sign import BinarySign
from dann.layers.channels import channel_shape


@keras.saving.register_keras_serializable("dann")
class RSign(BinarySign):
    """The sign of each input above or below a threshold that every channel learns.

    - forward: `y = +1` where `x >= a`, else `-1`, with `a` one trainable number a channel
    - backward: `dL/dx` of the estimator at `x - a`, and `dL/da = -dL/dx` summed over the channel

    Args:
        axis: Axis of the channels. Defaults to `-1`.
        threshold_initializer: Initializer of `a`. Defaults to `"zeros"`, the paper's.
        way: As in `BinarySign`.
        estimator: As in `BinarySign`. Defaults to `"htanh"`; the paper's is `"approx_sign"`.

    Input shape:
        `(batch, ...)`, with the axis of the channels of fixed length.

    Output shape:
        The same as the input.

    Raises:
        ValueError: If `way` or `estimator` is unknown, or the number of channels is.

    Example:

    >>> import keras
    >>> from dann.layers import RSign
    >>> layer = RSign(threshold_initializer=keras.initializers.Constant(0.5))
    >>> [float(value) for value in layer(keras.ops.array([[0.2, 0.5, 0.9]]))[0]]
    [-1.0, 1.0, 1.0]

    Reference:
        - [Liu et al., 2020](https://arxiv.org/abs/2003.03488), section 4.3, equation 1.
    """

    def __init__(
        self,
        axis: int = -1,
        threshold_initializer="zeros",
        way: str = "override",
        estimator: str | Estimator = "htanh",
        **kwargs,
    ):
        super().__init__(way, estimator, **kwargs)
        self.axis = axis
        self.threshold_initializer = keras.initializers.get(threshold_initializer)
        self.built = False

    def build(self, input_shape):
        self.threshold = self.add_weight(
            name="threshold",
            shape=channel_shape(self.axis, input_shape),
            initializer=self.threshold_initializer,
        )

    def call(self, inputs, training=False):
        return super().call(inputs - ops.convert_to_tensor(self.threshold), training)

    def get_config(self):
        initializer = keras.initializers.serialize(self.threshold_initializer)
        return {**super().get_config(), "axis": self.axis, "threshold_initializer": initializer}
