"""The TensorFlow side of an overridden gradient: a graph of its own, and a guard for its loss."""

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

LOST_GRADIENT = "dann.LostGradient"


def as_graph_function(function: Callable, autograph: bool = True) -> Callable:
    """Runs `function` as a TensorFlow graph of its own, for every kind of caller.

    `tf.config.run_functions_eagerly(True)` dissolves every `tf.function`, and with it the graph in
    which a gradient is overridden; a concrete function stays a graph.

    Each rank of inputs gets its own function. One function for several ranks would be traced for an
    unknown rank, and a gradient without a rank fails in most optimizers of Keras.

    Args:
        function: Function of tensors.
        autograph: Whether Python control flow in it is converted. Defaults to `True`.

    Returns:
        A function of the same tensors.
    """

    @functools.cache
    def function_of(ranks):
        return tf.function(function, reduce_retracing=True, autograph=autograph)

    @functools.wraps(function)
    def call(*inputs):
        graph_function = function_of(tuple(map(_rank, inputs)))
        if tf.config.functions_run_eagerly():
            return graph_function.get_concrete_function(*inputs)(*inputs)
        return graph_function(*inputs)

    return call


def _rank(value):
    shape = getattr(value, "shape", None)
    return None if shape is None or getattr(shape, "rank", 0) is None else len(shape)


def refuse_lost_gradient(output: Any) -> Any:
    """Returns `output` unchanged, through operations that no gradient should ever reach.

    `tf.vectorized_map` rebuilds `IdentityN`, which carries an overridden gradient, without its
    override, but keeps that of `Neg`. So a gradient reaches the first of the two negations only if
    the override was lost, and that raises an error. Negating twice is exact.
    """
    with tf.compat.v1.get_default_graph().gradient_override_map({"Neg": LOST_GRADIENT}):
        negative = tf.negative(output)
    return tf.negative(negative)


def _lost_gradient(op, upstream):
    if op is None:  # a SavedModel that is being traced
        return upstream
    raise LookupError(
        "TensorFlow lost an overridden gradient: a tape outside `tf.vectorized_map` watches its "
        "inputs. Open the tape inside the mapped function, or use `way='stop_gradient'`."
    )


with contextlib.suppress(KeyError):  # this module is being reloaded
    tf.RegisterGradient(LOST_GRADIENT)(_lost_gradient)
