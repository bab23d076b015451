import keras
from keras import ops

from dann.layers.binary_padding import PaddedBinaryLayer


@keras.saving.register_keras_serializable("dann")
class BinaryConv1D(PaddedBinaryLayer, keras.layers.Conv1D):
    """A `keras.layers.Conv1D` with a binary kernel and binary inputs.

    - forward: `y = activation(conv(pad(q(x)), q(W)) + b)`, with `q` the sign or what the estimator
      gives
    - backward: of the estimators, through `q` to `x` and to the latent `W`

    The kernel is quantized in each call; `binary_kernel()` returns it. `kernel` is the latent one
    that trains.

    Args:
        *args, **kwargs: As in `keras.layers.Conv1D`, with its defaults: a bias, which a
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
        pad_values: What `padding="same"` pads the quantized inputs with: -1, 0 or +1. Defaults to
            `0.0`, as in Keras, which is neither of the two values of a binary input.

    Input shape:
        As that of `keras.layers.Conv1D`.

    Output shape:
        As that of `keras.layers.Conv1D`.

    Raises:
        ValueError: If an estimator or `way` is unknown, the kernel has no estimator, the inputs'
            estimator looks at their whole batch, `dtype` or `lora_rank` would put another kernel in
            place of the binary one, or `pad_values` is none of the three or stands beside
            `padding="valid"`.

    Example:

    >>> import keras
    >>> from dann.layers import BinaryConv1D
    >>> layer = BinaryConv1D(3, 3, padding="same", pad_values=1.0)
    >>> layer(keras.ops.ones((1, 4, 2))).shape == (1, 4, 3)
    True

    Reference:
        - [Hubara et al., 2016](https://arxiv.org/abs/1602.02830), algorithm 1.
    """

    def apply(self, inputs, *kernels):
        (kernel,) = kernels
        inputs, geometry = self.padded(inputs)
        return ops.conv(inputs, kernel, **geometry)
