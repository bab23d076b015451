"""Binary convolutions: the Keras layers of those names over one base."""

import keras
from keras import ops

from dann.checks import check_choice
from dann.layers.binary_layer import BinaryLayer


class BinaryConvolution(BinaryLayer):
    """A Keras convolution with a binary kernel and binary inputs; goes before the Keras class.

    - forward: `y = activation(conv(pad(q(x)), q(W)) + b)`, where `q` is the sign, or what the
      estimator gives
    - backward: the estimators' gradients, through `q` to `x` and to the latent kernel `W`

    Args:
        *args, **kwargs: The arguments of the Keras layer and of `BinaryLayer`.
        pad_values: Value that `padding="same"` or `"causal"` pads the quantized inputs with: -1, 0
            or +1. Defaults to `0.0`, as in Keras, which is not one of the two values of a binary
            input.

    Shapes of inputs and outputs are those of the Keras layer.

    Raises:
        ValueError: As `BinaryLayer`; or if `pad_values` is not -1, 0 or +1.
    """

    convolve = staticmethod(ops.conv)

    def __init__(self, *args, pad_values: float = 0.0, **kwargs):
        super().__init__(*args, **kwargs)
        self.pad_values = check_choice("pad_values", float(pad_values), (-1.0, 0.0, 1.0))

    def apply(self, inputs, kernel):
        widths, padding = self._widths(inputs.shape), self.padding
        if widths is not None:
            inputs = ops.pad(inputs, widths, constant_values=self.pad_values)
            padding = "valid"
        return self.convolve(
            inputs, kernel, self.strides, padding, self.data_format, self.dilation_rate
        )

    def _widths(self, shape):
        """Returns the padding of each axis, or `None` if Keras pads."""
        if self.padding == "valid" or (self.padding == "same" and not self.pad_values):
            return None
        first = 1 if self.data_format == "channels_last" else 2
        widths = [(0, 0)] * len(shape)
        for place, length in enumerate(shape[first : first + len(self.kernel_size)]):
            total = self._total_padding(place, length)
            left = total if self.padding == "causal" else total // 2
            widths[first + place] = (left, total - left)
        return widths

    def _total_padding(self, place, length):
        reach = (self.kernel_size[place] - 1) * self.dilation_rate[place]
        stride = self.strides[place]
        if stride == 1 or self.padding == "causal":
            return reach
        if length is None:
            raise ValueError(
                "Padding with `pad_values` and strides above 1 needs inputs of fixed lengths. "
                f"Received: strides={self.strides} with a length of None"
            )
        # ceil(length / stride) outputs, as TensorFlow's SAME gives
        return max((-(-length // stride) - 1) * stride + reach + 1 - length, 0)

    def get_config(self):
        return {**super().get_config(), "pad_values": self.pad_values}


@keras.saving.register_keras_serializable("dann")
class BinaryConv1D(BinaryConvolution, keras.layers.Conv1D):
    """A `keras.layers.Conv1D` with a binary kernel and binary inputs.

    `BinaryConvolution` documents the arguments and both passes.

    Example:

    >>> import keras
    >>> from dann.layers import BinaryConv1D
    >>> layer = BinaryConv1D(3, 3, padding="same", pad_values=1.0)
    >>> layer(keras.ops.ones((1, 4, 2))).shape == (1, 4, 3)
    True
    """


@keras.saving.register_keras_serializable("dann")
class BinaryConv2D(BinaryConvolution, keras.layers.Conv2D):
    """A `keras.layers.Conv2D` with a binary kernel and binary inputs.

    `BinaryConvolution` documents the arguments and both passes.

    Example:

    >>> import keras
    >>> from dann.layers import BinaryConv2D
    >>> layer = BinaryConv2D(3, 3, padding="same", pad_values=1.0)
    >>> layer(keras.ops.ones((1, 4, 4, 2))).shape == (1, 4, 4, 3)
    True
    """


@keras.saving.register_keras_serializable("dann")
class BinaryConv3D(BinaryConvolution, keras.layers.Conv3D):
    """A `keras.layers.Conv3D` with a binary kernel and binary inputs.

    `BinaryConvolution` documents the arguments and both passes.

    Example:

    >>> import keras
    >>> from dann.layers import BinaryConv3D
    >>> layer = BinaryConv3D(3, 3, padding="same", pad_values=1.0)
    >>> layer(keras.ops.ones((1, 4, 4, 4, 2))).shape == (1, 4, 4, 4, 3)
    True
    """


@keras.saving.register_keras_serializable("dann")
class BinaryDepthwiseConv2D(BinaryConvolution, keras.layers.DepthwiseConv2D):
    """A `keras.layers.DepthwiseConv2D` with a binary kernel and binary inputs.

    - forward: `y = activation(depthwise_conv(pad(q(x)), q(W)) + b)`

    `BinaryConvolution` documents the arguments and the backward pass.

    Example:

    >>> import keras
    >>> from dann.layers import BinaryDepthwiseConv2D
    >>> layer = BinaryDepthwiseConv2D(3, padding="same", pad_values=-1.0)
    >>> layer(keras.ops.ones((1, 4, 4, 2))).shape == (1, 4, 4, 2)
    True
    """

    channel_axes = (-2, -1)
    constraint = "depthwise_constraint"
    convolve = staticmethod(ops.depthwise_conv)


class _Transposed(BinaryLayer):
    """A transposed convolution with a binary kernel `(*sizes, filters, channels)`."""

    channel_axes = (-2,)

    def apply(self, inputs, kernel):
        return ops.conv_transpose(
            inputs,
            kernel,
            self.strides,
            self.padding,
            self.output_padding,
            self.data_format,
            self.dilation_rate,
        )


@keras.saving.register_keras_serializable("dann")
class BinaryConv1DTranspose(_Transposed, keras.layers.Conv1DTranspose):
    """A `keras.layers.Conv1DTranspose` with a binary kernel and binary inputs.

    - forward: `y = activation(conv_transpose(q(x), q(W)) + b)`

    `BinaryLayer` documents the arguments and the backward pass. `W` has the
    shape `(length, filters, channels)`. Padding crops the outputs here, so there is no
    `pad_values`.

    Example:

    >>> import keras
    >>> from dann.layers import BinaryConv1DTranspose
    >>> layer = BinaryConv1DTranspose(3, 2, strides=2)
    >>> layer(keras.ops.ones((1, 4, 2))).shape == (1, 8, 3)
    True
    """


@keras.saving.register_keras_serializable("dann")
class BinaryConv2DTranspose(_Transposed, keras.layers.Conv2DTranspose):
    """A `keras.layers.Conv2DTranspose` with a binary kernel and binary inputs.

    - forward: `y = activation(conv_transpose(q(x), q(W)) + b)`

    `BinaryLayer` documents the arguments and the backward pass. `W` has the
    shape `(height, width, filters, channels)`. Padding crops the outputs here, so there is no
    `pad_values`.

    Example:

    >>> import keras
    >>> from dann.layers import BinaryConv2DTranspose
    >>> layer = BinaryConv2DTranspose(3, 2, strides=2)
    >>> layer(keras.ops.ones((1, 4, 4, 2))).shape == (1, 8, 8, 3)
    True
    """


@keras.saving.register_keras_serializable("dann")
class BinaryConv3DTranspose(_Transposed, keras.layers.Conv3DTranspose):
    """A `keras.layers.Conv3DTranspose` with a binary kernel and binary inputs.

    - forward: `y = activation(conv_transpose(q(x), q(W)) + b)`

    `BinaryLayer` documents the arguments and the backward pass. `W` has the
    shape `(depth, height, width, filters, channels)`. Padding crops the outputs here, so there is
    no `pad_values`.

    Example:

    >>> import keras
    >>> from dann.layers import BinaryConv3DTranspose
    >>> layer = BinaryConv3DTranspose(3, 2, strides=2)
    >>> layer(keras.ops.ones((1, 4, 4, 4, 2))).shape == (1, 8, 8, 8, 3)
    True
    """
