"""The ways in which a function of tensors is run."""

import keras
import pytest


def in_mode(function, mode):
    if mode == "eager":
        return function
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function)
    import tensorflow as tf

    return tf.function(function, jit_compile=mode == "xla")


each_mode = pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
