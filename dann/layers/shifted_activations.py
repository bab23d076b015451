"""Sign and PReLU of ReActNet, which learn a shift per channel."""

import keras
from keras import ops

from dann.gradients.estimators import Estimator
from dann.layers.binary_sign import BinarySign


@keras.saving.register_keras_serializable("dann")
class RSign(BinarySign):
    """Returns the sign, +1 or -1, of the difference of each input and a learned threshold.

    - forward: `y = +1` where `x >= a`, else `-1`, with one trainable `a` per channel
    - backward: `dL/dx` of the estimator at `x - a`, and `dL/da = -dL/dx` summed over the channel

    Args:
        axis: Axis of the channels. Defaults to `-1`.
        threshold_initializer: Initializer of `a`. Defaults to `"zeros"`, as in the paper.
        implementation: Implementation of the gradient; see `BinarySign`. Defaults to `"override"`.
        estimator: A name or an object of `dann.gradients.estimators`. Defaults to `"htanh"`; the
            paper uses `"approx_sign"`.

    Input shape:
        `(batch, ...)` with a fixed number of channels.

    Output shape:
        The same as the input.

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
        implementation: str = "override",
        estimator: str | Estimator = "htanh",
        **kwargs,
    ):
        super().__init__(implementation, estimator, **kwargs)
        self.axis = axis
        self.threshold_initializer = keras.initializers.get(threshold_initializer)

    def build(self, input_shape):
        self.threshold = self.add_weight(
            name="threshold",
            shape=_get_channel_shape(self.axis, input_shape),
            initializer=self.threshold_initializer,
        )

    def call(self, inputs, training=False):
        return super().call(inputs - ops.convert_to_tensor(self.threshold), training)

    def get_config(self):
        initializer = keras.initializers.serialize(self.threshold_initializer)
        return {**super().get_config(), "axis": self.axis, "threshold_initializer": initializer}


@keras.saving.register_keras_serializable("dann")
class RPReLU(keras.layers.Layer):
    """PReLU with a learned shift of the inputs and of the outputs of each channel.

    - `y = x - g + z` where `x > g`, else `y = b (x - g) + z`

    Each channel trains its own `b`, `g` and `z`, in the weights `slope`, `input_shift` and
    `output_shift`. The shifts start at 0.

    Args:
        axis: Axis of the channels. Defaults to `-1`.
        slope_initializer: Initializer of `b`. Defaults to the constant 0.25.

    Input shape:
        `(batch, ...)` with a fixed number of channels.

    Output shape:
        The same as the input.

    Example:

    >>> import keras
    >>> from dann.layers import RPReLU
    >>> [float(value) for value in RPReLU()(keras.ops.array([[-2.0, 0.0, 3.0]]))[0]]
    [-0.5, 0.0, 3.0]

    Reference:
        - [Liu et al., 2020](https://arxiv.org/abs/2003.03488), section 4.3, equation 2.
    """

    def __init__(self, axis: int = -1, slope_initializer=None, **kwargs):
        super().__init__(**kwargs)
        self.axis = axis
        if slope_initializer is None:
            slope_initializer = keras.initializers.Constant(0.25)
        self.slope_initializer = keras.initializers.get(slope_initializer)
        self.supports_masking = True

    def build(self, input_shape):
        shape = _get_channel_shape(self.axis, input_shape)
        self.slope = self.add_weight(name="slope", shape=shape, initializer=self.slope_initializer)
        self.input_shift = self.add_weight(name="input_shift", shape=shape, initializer="zeros")
        self.output_shift = self.add_weight(name="output_shift", shape=shape, initializer="zeros")

    def call(self, inputs):
        shifted = inputs - ops.convert_to_tensor(self.input_shift)
        activated = ops.where(shifted > 0, shifted, shifted * ops.convert_to_tensor(self.slope))
        return activated + ops.convert_to_tensor(self.output_shift)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        initializer = keras.initializers.serialize(self.slope_initializer)
        return {**super().get_config(), "axis": self.axis, "slope_initializer": initializer}


def _get_channel_shape(axis, input_shape):
    """Returns the shape of a weight with one number per channel, which broadcasts to inputs."""
    channel_axis = range(len(input_shape))[axis]  # not negative
    # (1, 1, channels) for images with the channels last
    return [size if i == channel_axis else 1 for i, size in enumerate(input_shape)][1:]
