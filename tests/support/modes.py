"""The ways in which a function of tensors is run."""

import keras
import pytest


def in_mode(function, mode):
    if keras.backend.backend() == "torch":
        return lambda *args: keras.tree.map_structure(lambda t: t.detach(), function(*args))
    if mode == "eager":
        return function
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function)
    import tensorflow as tf

    return tf.function(function, jit_compile=mode == "xla")


EAGER = pytest.param("eager", marks=pytest.mark.tensorflow)
XLA = pytest.param(
    "xla", marks=pytest.mark.tensorflow
)  # JAX has one way to compile, torch one to run
each_mode = pytest.mark.parametrize("mode", [EAGER, "graph", XLA])
