"""Binary convolutions: a common base and one class per Keras layer."""

from typing import Any, Unpack

import keras
from keras import ops

from dann.checks import check_choice
from dann.layers.binary_layer import BinaryLayer, BinaryOptions, KernelOptions


class SpatialOptions(BinaryOptions, total=False):
    """Options of every binary convolution."""

    data_format: str | None
    dilation_rate: int | tuple[int, ...]
    activation: Any


class ConvolutionOptions(SpatialOptions, KernelOptions, total=False):
    """Options of a binary convolution."""

    pad_values: float
    groups: int


class DepthwiseOptions(SpatialOptions, total=False):
    """Options of a binary depthwise convolution."""

    pad_values: float
    depthwise_initializer: Any
    depthwise_regularizer: Any
    depthwise_constraint: Any


class TransposedOptions(SpatialOptions, KernelOptions, total=False):
    """Options of a binary transposed convolution."""

    output_padding: int | tuple[int, ...] | None


class BinaryConvolution(BinaryLayer):
    """Mixin that gives a Keras convolution a binary kernel and binary inputs.

    - forward: `y = activation(conv(pad(q(x)), q(W)) + b)`, where `q` is the quantizer of the
      estimator, by default the sign
    - backward: the gradients of the estimators, through `q` to `x` and to the latent kernel `W`

    Inputs and outputs have the same shapes as in the Keras layer.

    Args:
        *args: Positional arguments of the Keras layer.
        pad_values: Value with which `padding="same"` or `"causal"` pads the quantized inputs: -1, 0
            or +1. Defaults to `0.0`, as in Keras, although a binary input is never 0.
        **kwargs: Keyword arguments of the Keras layer and of `BinaryLayer`.

    Raises:
        ValueError: If `pad_values` is not -1, 0 or +1, and in the cases that `BinaryLayer` lists.
    """

    convolve = staticmethod(ops.conv)

    def __init__(self, *args, pad_values: float = 0.0, **kwargs):
        super().__init__(*args, **kwargs)
        self.pad_values = check_choice("pad_values", float(pad_values), (-1.0, 0.0, 1.0))

    def apply(self, inputs, kernel):
        padding = self.padding
        # `ops.conv` has no causal padding and pads with zeros alone.
        if padding == "causal" or (padding == "same" and self.pad_values):
            first = 1 if self.data_format == "channels_last" else 2  # of the spatial axes
            widths = [(0, 0)] * len(inputs.shape)
            for axis, length in enumerate(inputs.shape[first : first + len(self.kernel_size)]):
                total = self._compute_total_padding(axis, length)
                # If the total is odd, the end has one more, as with the padding SAME of TensorFlow.
                start = total if padding == "causal" else total // 2
                widths[first + axis] = (start, total - start)
            inputs = ops.pad(inputs, widths, constant_values=self.pad_values)
            padding = "valid"
        return self.convolve(
            inputs, kernel, self.strides, padding, self.data_format, self.dilation_rate
        )

    def _compute_total_padding(self, axis, length):
        """Returns the padding at both ends of an axis together."""
        extent = (self.kernel_size[axis] - 1) * self.dilation_rate[axis]
        stride = self.strides[axis]
        if stride == 1 or self.padding == "causal":  # for every length, which may be unknown
            return extent
        if length is None:
            raise ValueError(
                "Expected inputs of fixed lengths for padding with `pad_values` and strides above "
                f"1. Received: strides={self.strides} and a length of None"
            )
        # ceil(length / stride) outputs, as with the padding SAME of TensorFlow
        return max((-(-length // stride) - 1) * stride + extent + 1 - length, 0)

    def get_config(self):
        return {**super().get_config(), "pad_values": self.pad_values}


class _Convolution(BinaryConvolution):
    """A binary convolution with its own number of filters."""

    def __init__(
        self,
        filters: int,
        kernel_size: int | tuple[int, ...],
        strides: int | tuple[int, ...] = 1,
        padding: str = "valid",
        **options: Unpack[ConvolutionOptions],
    ):
        super().__init__(filters, kernel_size, strides, padding, **options)


@keras.saving.register_keras_serializable("dann")
class BinaryConv1D(_Convolution, keras.layers.Conv1D):
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
class BinaryConv2D(_Convolution, keras.layers.Conv2D):
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
class BinaryConv3D(_Convolution, keras.layers.Conv3D):
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

    # (height, width, channels, depth_multiplier): each channel has its own output channels.
    channel_axes = (-2, -1)
    constraint = "depthwise_constraint"
    convolve = staticmethod(ops.depthwise_conv)

    def __init__(
        self,
        kernel_size: int | tuple[int, ...],
        strides: int | tuple[int, ...] = 1,
        padding: str = "valid",
        depth_multiplier: int = 1,
        **options: Unpack[DepthwiseOptions],
    ):
        super().__init__(kernel_size, strides, padding, depth_multiplier, **options)


class _Transposed(BinaryLayer):
    """A transposed convolution with a binary kernel `(*sizes, filters, channels)`."""

    channel_axes = (-2,)

    def __init__(
        self,
        filters: int,
        kernel_size: int | tuple[int, ...],
        strides: int | tuple[int, ...] = 1,
        padding: str = "valid",
        **options: Unpack[TransposedOptions],
    ):
        super().__init__(filters, kernel_size, strides, padding, **options)

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

    `BinaryLayer` documents the arguments and the backward pass. `W` has the shape
    `(length, filters, channels)`. Padding crops the outputs, so there is no `pad_values`.

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

    `BinaryLayer` documents the arguments and the backward pass. `W` has the shape
    `(height, width, filters, channels)`. Padding crops the outputs, so there is no `pad_values`.

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

    `BinaryLayer` documents the arguments and the backward pass. `W` has the shape
    `(depth, height, width, filters, channels)`. Padding crops the outputs, so there is no
    `pad_values`.

    Example:

    >>> import keras
    >>> from dann.layers import BinaryConv3DTranspose
    >>> layer = BinaryConv3DTranspose(3, 2, strides=2)
    >>> layer(keras.ops.ones((1, 4, 4, 4, 2))).shape == (1, 8, 8, 8, 3)
    True
    """
