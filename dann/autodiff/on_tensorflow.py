"""The TensorFlow side of derivatives: tapes, vectorized maps, and programs that run as graphs."""

import contextlib
import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from dann.autodiff.functions import as_function, as_pure_function, program_of

VARIABLES = (keras.Variable, tf.Variable)
_FAST_BYTES = 2**25
_WEIGHTS = {"Const", "ReadVariableOp", "VarHandleOp"}


def tensor(value: Any) -> Any:
    """Returns a value as a tensor of its own type."""
    return tf.convert_to_tensor(value)


def has_value(value: Any) -> bool:
    """Whether a tensor has a value, and is not a symbol in a function that is being traced."""
    return not tf.is_symbolic_tensor(value)


def pull_back(function: Callable, xs: list) -> tuple[Any, Callable]:
    """Returns a function's outputs, and the function from upstream gradients to gradients."""
    sources = [_watched(x) for x in xs]
    # A loaded SavedModel with a loop has no gradient by a persistent tape; a traced loop needs one.
    persistent = not tf.executing_eagerly()
    with tf.GradientTape(persistent, watch_accessed_variables=False) as tape:
        tape.watch(sources)
        outputs = function(*map(tensor, sources))
        if any(isinstance(one, np.ndarray | np.generic) for one in keras.tree.flatten(outputs)):
            raise TypeError(
                "The function must return tensors, because no gradient flows through NumPy: write "
                "`keras.ops.sin(x)` for `numpy.sin(x)`. Received: an array"
            )
        outputs = keras.tree.map_structure(tensor, outputs)
    ys = keras.tree.flatten(outputs)

    def pull(upstream, unconnected="zero"):
        found = tape.gradient(ys, sources, upstream, tf.UnconnectedGradients(unconnected))
        return [None if gradient is None else tensor(gradient) for gradient in found]

    return outputs, pull


def _watched(x):
    # A tape compares tensors by identity. It must not take a tensor that is given twice, or that
    # the function itself reads, for the argument.
    variable = x.value if isinstance(x, keras.Variable) else x
    return variable if isinstance(variable, tf.Variable) else tf.identity(variable)


def mapped(function: Callable, count: int, dtypes: Any) -> Any:
    """Returns the function's results for the numbers below `count`, stacked; some at a time."""
    parts = math.ceil(count / _at_once())
    with _loops_told():
        if parts <= 1:
            return tf.vectorized_map(function, tf.range(count))
        numbers = tf.reshape(tf.range(parts * math.ceil(count / parts)), (parts, -1))
        found = tf.map_fn(
            lambda part: tf.vectorized_map(function, part), numbers, fn_output_signature=dtypes
        )
    return keras.tree.map_structure(lambda x: tf.reshape(x, (-1, *x.shape[2:]))[:count], found)


@contextlib.contextmanager
def _loops_told():
    try:
        yield
    except ValueError as error:
        if "handle data" not in str(error):
            raise
        raise NotImplementedError(
            "TensorFlow cannot vectorize the gradient of a loop in a loaded SavedModel, as of an "
            "LSTM: load a `.keras` file, or stack `gradients(lambda x: function(x)[:, i], [x])[0]` "
            "for each output `i`. Received: such a function"
        ) from error


def has_loops(y: Any) -> bool:
    """Whether a tensor comes from a loop, whose derivatives have derivatives of no fixed shape."""
    definition = y.graph.as_graph_def()
    bodies = [definition.node, *(body.node_def for body in definition.library.function)]
    return any(node.op in {"While", "StatelessWhile"} for nodes in bodies for node in nodes)


def run(function: Any, program: Callable, x: Any, **static: Any) -> Any:
    """Runs `program(call, x, **static)` as a graph, which is kept for a Keras model."""
    if not has_value(x):
        return program(as_function(function), x, **static)

    def make(get):
        traced = tf.function(
            lambda x: program(as_pure_function(get()), x, **static), autograph=False
        )
        return traced.get_concrete_function(x)  # which is called sooner than the function

    with _loops_told():
        return program_of(function, (program, tuple(x.shape), x.dtype, *static.items()), make)(x)


def _at_once():
    """How many outputs one vectorized pass covers, by the largest tensor that the graph computes.

    Larger parts are slower on a processor (caches, page faults).
    """
    if tf.executing_eagerly():
        return math.inf
    operations = tf.compat.v1.get_default_graph().get_operations()
    outputs = [out for op in operations if op.type not in _WEIGHTS for out in op.outputs]
    largest = max(out.dtype.size * (out.shape.num_elements() or 0) for out in outputs)
    room = 2**30 if tf.config.list_logical_devices("GPU") else _FAST_BYTES
    return max(1, room // (3 * max(largest, 1)))
