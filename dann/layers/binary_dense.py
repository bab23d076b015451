import keras
from keras import ops

from dann.layers.binary_layer import BinaryLayer


@keras.saving.register_keras_serializable("dann")
class BinaryDense(BinaryLayer, keras.layers.Dense):
    """A `keras.layers.Dense` with a binary kernel and binary inputs.

    - forward: `y = activation(q(x) q(W) + b)`, with `q` the sign or what the estimator gives
    - backward: of the estimators, through `q` to `x` and to the latent `W`

    The kernel is quantized in each call; `binary_kernel()` returns it. `kernel` is the latent one
    that trains.

    Args:
        *args, **kwargs: As in `keras.layers.Dense`, with its defaults: a bias, which a
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
        As that of `keras.layers.Dense`.

    Output shape:
        As that of `keras.layers.Dense`.

    Raises:
        ValueError: If an estimator or `way` is unknown, the kernel has no estimator, the inputs'
            estimator looks at their whole batch, `dtype` or `lora_rank` would put another kernel in
            place of the binary one.

    Example:

    >>> import keras
    >>> from dann.layers import BinaryDense
    >>> layer = BinaryDense(2, kernel_initializer="ones", use_bias=False)
    >>> [float(value) for value in layer(keras.ops.array([[0.3, -0.1, 2.0]]))[0]]
    [1.0, 1.0]
    >>> [float(value) for value in layer.binary_kernel()[0]]
    [1.0, 1.0]

    Reference:
        - [Hubara et al., 2016](https://arxiv.org/abs/1602.02830), algorithm 1.
    """

    def apply(self, inputs, *kernels):
        (kernel,) = kernels
        return ops.matmul(inputs, kernel)
