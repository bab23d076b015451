import keras
from keras import ops

from dann.layers.binary_layer import BinaryLayer


@keras.saving.register_keras_serializable("dann")
class BinaryDense(BinaryLayer, keras.layers.Dense):
    """A `keras.layers.Dense` with a binary kernel and binary inputs.

    - forward: `y = activation(q(x) q(W) + b)`

    `BinaryLayer` documents the arguments and the backward pass.

    Example:

    >>> import keras
    >>> from dann.layers import BinaryDense
    >>> layer = BinaryDense(2, kernel_initializer="ones", use_bias=False)
    >>> [float(value) for value in layer(keras.ops.array([[0.3, -0.1, 2.0]]))[0]]
    [1.0, 1.0]
    >>> [float(value) for value in layer.binary_kernel()[0]]
    [1.0, 1.0]
    """

    def apply(self, inputs, kernel):
        return ops.matmul(inputs, kernel)
