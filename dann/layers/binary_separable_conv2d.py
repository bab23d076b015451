import keras
from keras import ops

from dann.layers.binary_padding import PaddedBinaryLayer


@keras.saving.register_keras_serializable("dann")
class BinarySeparableConv2D(PaddedBinaryLayer, keras.layers.SeparableConv2D):
    """A `keras.layers.SeparableConv2D` with binary kernels and binary inputs.

    - forward: `y = activation(conv(depthwise_conv(pad(q(x)), q(V)), q(W)) + b)`, with `q` the sign
      or what the estimator gives, `V` the depthwise and `W` the pointwise kernel
    - backward: of the estimators, through `q` to `x` and to the latent `V` and `W`

    What goes from the first convolution to the second are whole numbers, not signs.
    `binary_kernel()` and `kernel_scale()` return pairs, for `depthwise_kernel` and
    `pointwise_kernel`.

    Args:
        *args, **kwargs: As in `keras.layers.SeparableConv2D`, with its defaults: a bias, which a
            batch norm after the layer makes superfluous, and `"glorot_uniform"`.
        input_estimator: How the inputs are quantized: a name or an object of
            `dann.gradients.estimators`, or `None` to take them as they are, as the first layer of a
            network does. Defaults to `"htanh"`.
        kernel_estimator: How the kernels are quantized; the same, but never `None`. Defaults to
            `"htanh"`.
        way: How the gradients are built: `"override"` (default), `"stop_gradient"` or
            `"op_override"`; see `dann.gradients.binary_sign`.
        clip: Whether latent weights are kept in [-1, 1] by `WeightClip`, if they are given no other
            constraint. Defaults to `True`.
        pad_values: What `padding="same"` pads the quantized inputs with: -1, 0 or +1. Defaults to
            `0.0`, as in Keras, which is neither of the two values of a binary input.

    Input shape:
        As that of `keras.layers.SeparableConv2D`.

    Output shape:
        As that of `keras.layers.SeparableConv2D`.

    Raises:
        ValueError: If an estimator or `way` is unknown, the kernel has no estimator, the inputs'
            estimator looks at their whole batch, `dtype` or `lora_rank` would put another kernel in
            place of the binary one, or `pad_values` is none of the three or stands beside
            `padding="valid"`.

    Example:

    >>> import keras
    >>> from dann.layers import BinarySeparableConv2D
    >>> layer = BinarySeparableConv2D(3, 3, padding="same")
    >>> layer(keras.ops.ones((1, 4, 4, 2))).shape == (1, 4, 4, 3)
    True
    >>> depthwise_kernel, pointwise_kernel = layer.binary_kernel()

    Reference:
        - [Hubara et al., 2016](https://arxiv.org/abs/1602.02830), algorithm 1.
    """

    latents = {
        "depthwise_kernel": ("depthwise_constraint", (-2, -1)),
        "pointwise_kernel": ("pointwise_constraint", (-1,)),
    }

    def quantized_kernels(self, training=None):
        (depthwise, pointwise), scales = super().quantized_kernels(training)
        if scales[0] is not None:  # of what the pointwise kernel takes
            pointwise = ops.multiply(pointwise, ops.reshape(scales[0], (-1, 1)))
        return [depthwise, pointwise], scales

    def apply(self, inputs, *kernels):
        inputs, geometry = self.padded(inputs)
        return ops.separable_conv(inputs, *kernels, **geometry)
