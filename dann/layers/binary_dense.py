from typing import Any, Unpack

import keras
from keras import ops

from dann.layers.binary_layer import BinaryLayer, KernelOptions


# Keras 3.16 has `TernaryDense`, which can replace this layer with the estimator "ternary" of the
# kernel; other estimators, binary inputs and packed files still need this layer.
@keras.saving.register_keras_serializable("dann")
class BinaryDense(BinaryLayer, keras.layers.Dense):
    """A `keras.layers.Dense` with a binary kernel and binary inputs.

    - forward: `y = activation(q(x) q(W) + b)`

    `BinaryLayer` documents the backward pass.

    Args:
        units: Number of outputs.
        activation: Activation function. Defaults to none.
        **options: Options of `BinaryLayer` and of `keras.layers.Dense`.

    Example:

    >>> import keras
    >>> from dann.layers import BinaryDense
    >>> layer = BinaryDense(2, kernel_initializer="ones", use_bias=False)
    >>> [float(value) for value in layer(keras.ops.array([[0.3, -0.1, 2.0]]))[0]]
    [1.0, 1.0]
    >>> [float(value) for value in layer.binary_kernel()[0]]
    [1.0, 1.0]
    """

    def __init__(self, units: int, activation: Any = None, **options: Unpack[KernelOptions]):
        super().__init__(units, activation, **options)

    def apply(self, inputs, kernel):
        return ops.matmul(inputs, kernel)
