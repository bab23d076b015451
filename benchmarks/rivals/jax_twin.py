"""Networks in plain JAX, with the weights of networks of Keras."""

from collections.abc import Callable
from typing import Any

import jax  # pyright: ignore[reportMissingImports]
import jax.numpy as jnp  # pyright: ignore[reportMissingImports]
import keras
import numpy as np


def jax_twin(network: keras.Model) -> Callable[[Any], Any]:
    """Returns the same network as a function of arrays in JAX, `(batch, ...)` to `(batch, ...)`.

    Args:
        network: Layers one after the other: dense ones, convolutions, max pooling, rescaling and
            flattening.

    Raises:
        KeyError: If an activation is not known here.
        TypeError: If a layer is not known here.
    """
    functions = [_function(layer) for layer in network.layers]

    def compute(x):
        for function in functions:
            x = function(x)
        return x

    return compute


def _function(layer):
    layers = keras.layers
    if isinstance(layer, layers.InputLayer):
        return lambda x: x
    if isinstance(layer, layers.Rescaling):
        return lambda x: x * layer.scale + layer.offset
    if isinstance(layer, layers.Flatten):
        return lambda x: x.reshape(len(x), -1)
    if isinstance(layer, layers.MaxPooling2D):
        window = (1, *layer.pool_size, 1)
        return lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")
    if not isinstance(layer, layers.Dense | layers.Conv2D):
        raise TypeError(f"Expected a layer of `dann.networks`. Received: {layer!r}")
    kernel, *bias = (jnp.asarray(np.asarray(weight)) for weight in layer.get_weights())
    end = {"linear": lambda x: x, "relu": jax.nn.relu, "tanh": jnp.tanh}[layer.activation.__name__]
    shift = bias[0] if bias else 0.0
    if isinstance(layer, layers.Dense):
        return lambda x: end(x @ kernel + shift)
    padding, axes = layer.padding.upper(), ("NHWC", "HWIO", "NHWC")

    def convolve(x):
        y = jax.lax.conv_general_dilated(x, kernel, (1, 1), padding, dimension_numbers=axes)
        return end(y + shift)

    return convolve
