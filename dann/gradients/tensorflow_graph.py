"""A TensorFlow graph of its own for a function whose gradient is overridden."""

import functools
from collections.abc import Callable

import keras
import tensorflow as tf


def as_graph_function(function: Callable, autograph: bool = True) -> Callable:
    """Runs `function` as a TensorFlow graph of its own, for every kind of caller.

    `tf.config.run_functions_eagerly(True)` dissolves every `tf.function`, and with it the graph in
    which a gradient is overridden; a concrete function stays a graph.

    Each rank of inputs gets its own function. One function for several ranks would be traced for an
    unknown rank, and a gradient without a rank fails in most optimizers of Keras.

    Args:
        function: Function of tensors; a variable is read, and gets the gradient of its value.
        autograph: Whether Python control flow in it is converted. Defaults to `True`.

    Returns:
        A function of the same tensors.
    """

    @functools.cache
    def function_of(ranks):
        return tf.function(function, reduce_retracing=True, autograph=autograph)

    def call(*inputs):
        tensors = [_read(value) for value in inputs]
        graph_function = function_of(tuple(map(_rank, tensors)))
        if tf.config.functions_run_eagerly():
            return graph_function.get_concrete_function(*tensors)(*tensors)
        return graph_function(*tensors)

    return call


def _read(value):
    variable = isinstance(value, keras.Variable | tf.Variable)
    return tf.convert_to_tensor(value) if variable else value


def _rank(value):
    shape = getattr(value, "shape", None)
    return None if shape is None or getattr(shape, "rank", 0) is None else len(shape)
