from typing import Any

import keras
from keras import ops

from dann.layers.binary_layer import BinaryLayer


@keras.saving.register_keras_serializable("dann")
class BinaryConv2DTranspose(BinaryLayer, keras.layers.Conv2DTranspose):
    """A `keras.layers.Conv2DTranspose` with a binary kernel and binary inputs.

    - forward: `y = activation(conv_transpose(q(x), q(W)) + b)`, with `q` the sign or what the
      estimator gives
    - backward: of the estimators, through `q` to `x` and to the latent `W`

    The kernel is quantized in each call; `binary_kernel()` returns it. `kernel` is the latent one
    that trains, of shape `(height, width, filters, channels)`. Padding crops the outputs here, so
    that there are no values to pad with.

    Args:
        *args, **kwargs: As in `keras.layers.Conv2DTranspose`, with its defaults: a bias, which a
            batch norm after the layer makes superfluous, and `"glorot_uniform"`.
        input_estimator: How the inputs are quantized: a name or an object of
            `dann.gradients.estimators`, or `None` to take them as they are, as the first layer of a
            network does. Defaults to `"htanh"`.
        kernel_estimator: How the kernel is quantized; the same, but never `None`. Defaults to
            `"htanh"`.
        way: How the gradients are built: `"override"` (default), `"stop_gradient"` or
            `"op_override"`; see `dann.gradients.binary_sign`.
        clip: Whether latent weights are kept in [-1, 1] by `WeightClip`, if they are given no other
            constraint. Defaults to `True`.

    Input shape:
        As that of `keras.layers.Conv2DTranspose`.

    Output shape:
        As that of `keras.layers.Conv2DTranspose`.

    Raises:
        ValueError: If an estimator or `way` is unknown, the kernel has no estimator, the inputs'
            estimator looks at their whole batch, `dtype` or `lora_rank` would put another kernel in
            place of the binary one.

    Example:

    >>> import keras
    >>> from dann.layers import BinaryConv2DTranspose
    >>> layer = BinaryConv2DTranspose(3, 2, strides=2)
    >>> layer(keras.ops.ones((1, 4, 4, 2))).shape == (1, 8, 8, 3)
    True

    Reference:
        - [Hubara et al., 2016](https://arxiv.org/abs/1602.02830), algorithm 1.
    """

    latents = {"kernel": ("kernel_constraint", (-2,))}

    def apply(self, inputs, *kernels):
        (kernel,) = kernels
        geometry: dict[str, Any] = {
            "strides": self.strides,
            "padding": self.padding,
            "output_padding": self.output_padding,
            "dilation_rate": self.dilation_rate,
            "data_format": self.data_format,
        }
        return ops.conv_transpose(inputs, kernel, **geometry)
