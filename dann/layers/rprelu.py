import keras
from keras import ops

from dann.layers.channels import channel_shape


@keras.saving.register_keras_serializable("dann")
class RPReLU(keras.layers.Layer):
    """A PReLU that every channel learns to shift, at its input and at its output.

    `y = x - g + z` where `x > g`, else `y = b (x - g) + z`, with one trainable `b`, `g` and `z` a
    channel.

    Args:
        axis: Axis of the channels. Defaults to `-1`.
        slope_initializer: Initializer of `b`, of the weight `slope`. Defaults to the constant
            0.25. The shifts `g` and `z`, in the weights `input_shift` and `output_shift`, start
            at 0.

    Input shape:
        `(batch, ...)`, with the axis of the channels of fixed length.

    Output shape:
        The same as the input.

    Raises:
        ValueError: If the number of channels is unknown.

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
        shape = channel_shape(self.axis, input_shape)
        self.slope = self.add_weight(name="slope", shape=shape, initializer=self.slope_initializer)
        self.input_shift = self.add_weight(name="input_shift", shape=shape, initializer="zeros")
        self.output_shift = self.add_weight(name="output_shift", shape=shape, initializer="zeros")

    def call(self, inputs):
        shifted = inputs - ops.convert_to_tensor(self.input_shift)
        bent = ops.where(shifted > 0, shifted, shifted * ops.convert_to_tensor(self.slope))
        return bent + ops.convert_to_tensor(self.output_shift)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        initializer = keras.initializers.serialize(self.slope_initializer)
        return {**super().get_config(), "axis": self.axis, "slope_initializer": initializer}
