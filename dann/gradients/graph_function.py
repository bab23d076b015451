"""Functions that run as separate TensorFlow graphs."""

import functools
from collections.abc import Callable

import tensorflow as tf


def as_graph_function(function: Callable, autograph: bool = True) -> Callable:
    """Wraps a function so that it always runs as a separate TensorFlow graph.

    `tf.config.run_functions_eagerly(True)` runs every `tf.function` eagerly, so the graph in which
    a gradient is overridden would not exist. Concrete functions run as graphs even then.

    Args:
        function: Function of tensors. A variable is read and gets the gradient of its value.
        autograph: Whether TensorFlow converts Python control flow. Defaults to `True`.

    Returns:
        A function of the same tensors.
    """

    # One function per rank. A single function would be traced for an unknown rank when the rank
    # changes, and most optimizers of Keras fail on a gradient without a rank.
    @functools.cache
    def function_for(ranks):
        return tf.function(function, reduce_retracing=True, autograph=autograph)

    def call(*inputs):
        tensors = [tf.convert_to_tensor(value) for value in inputs]  # reads variables
        graph_function = function_for(tuple(tensor.shape.rank for tensor in tensors))
        if tf.config.functions_run_eagerly():
            return graph_function.get_concrete_function(*tensors)(*tensors)
        return graph_function(*tensors)

    return call
