"""Derivatives on TensorFlow: tapes, vectorized maps, and programs that run as graphs."""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from dann.autodiff.functions import as_function, as_pure_function, get_program

VARIABLES = (keras.Variable, tf.Variable)
_CHUNK_BYTES = 2**25  # memory of the tensors in a vectorized pass on a CPU
_WEIGHTS = {"Const", "ReadVariableOp", "VarHandleOp"}


def tensor(value: Any) -> Any:
    """Returns a value as a tensor of its own type."""
    return tf.convert_to_tensor(value)


def has_value(value: Any) -> bool:
    """Returns whether a tensor is not a symbol in a function that is being traced."""
    return not tf.is_symbolic_tensor(value)


def pull_back(function: Callable, xs: list) -> tuple[Any, Callable]:
    """Returns the outputs of a function, and the function from upstream gradients to gradients."""
    sources = [_identify(x) for x in xs]
    # A loaded SavedModel with a loop has no gradient with a persistent tape; a traced loop needs
    # a persistent tape.
    persistent = not tf.executing_eagerly()
    with tf.GradientTape(persistent, watch_accessed_variables=False) as tape:
        tape.watch(sources)
        outputs = function(*map(tensor, sources))
        if any(isinstance(y, np.ndarray | np.generic) for y in keras.tree.flatten(outputs)):
            raise TypeError(
                "Expected a function that returns tensors, because no gradient flows through "
                "NumPy. Received: an array. Write `keras.ops.sin(x)` for `numpy.sin(x)`"
            )
        outputs = keras.tree.map_structure(tensor, outputs)
    ys = keras.tree.flatten(outputs)

    def pull(upstream, unconnected="zero"):
        gradients = tape.gradient(ys, sources, upstream, tf.UnconnectedGradients(unconnected))
        return [None if gradient is None else tensor(gradient) for gradient in gradients]

    return outputs, pull


def _identify(x):
    """Returns a variable, or a copy of a tensor that the tape can distinguish from the original.

    A tape compares tensors by identity. A tensor that is passed twice, or that the function itself
    reads, must not count as the argument.
    """
    variable = x.value if isinstance(x, keras.Variable) else x
    return variable if isinstance(variable, tf.Variable) else tf.identity(variable)


def map_range(function: Callable, count: int, dtypes: Any) -> Any:
    """Returns the stacked results of a function for the numbers below `count`, in chunks."""
    # `count` is a tensor if the batch size is unknown.
    num_chunks = 1 if tf.is_tensor(count) else math.ceil(count / _chunk_size())
    if num_chunks <= 1:
        return tf.vectorized_map(function, tf.range(count))
    # The last chunk is padded with further numbers; their results are removed below.
    chunk_size = math.ceil(count / num_chunks)
    numbers = tf.reshape(tf.range(num_chunks * chunk_size), (num_chunks, chunk_size))
    results = tf.map_fn(
        lambda chunk: tf.vectorized_map(function, chunk), numbers, fn_output_signature=dtypes
    )
    # (chunks, chunk size, ...) -> (count, ...)
    return keras.tree.map_structure(lambda x: tf.reshape(x, (-1, *x.shape[2:]))[:count], results)


def may_override(y: Any, pull: Callable) -> bool:
    """Returns whether an operation in the graph of `y` has another gradient than its type."""
    key = "_gradient_op_type"
    types = {node.attr[key].s for node in _list_nodes(y.graph) if key in node.attr}
    # A call of a `tf.function` has the gradient of the function.
    return any(b"PartitionedCall" not in gradient for gradient in types)


def has_loops(y: Any) -> bool:
    """Returns whether a tensor comes from a loop, whose second derivatives have no fixed shape."""
    return any(node.op in {"While", "StatelessWhile"} for node in _list_nodes(y.graph))


def run(function: Any, program: Callable, x: Any, **static: Any) -> Any:
    """Runs `program(call, x, **static)` as a graph, which is cached for a Keras model."""
    if not has_value(x):
        return program(as_function(function), x, **static)

    def make(get):
        traced = tf.function(
            lambda x: program(as_pure_function(get()), x, **static), autograph=False
        )
        return traced.get_concrete_function(x)  # has less overhead per call than the function

    return get_program(function, (program, tuple(x.shape), x.dtype, *static.items()), make)(x)


def _list_nodes(graph):
    """Returns the nodes of a graph and of all functions that it calls."""
    definition = graph.as_graph_def()
    bodies = [definition.node, *(body.node_def for body in definition.library.function)]
    return [node for nodes in bodies for node in nodes]


def _chunk_size():
    """Returns the number of outputs per vectorized pass, from the largest tensor of the graph.

    Larger chunks are slower on a CPU, because of caches and page faults.
    """
    if tf.executing_eagerly():
        return math.inf
    graph, operations = tf.compat.v1.get_default_graph(), []
    while graph.building_function:  # the branches of a condition belong to an outer graph
        operations += graph.get_operations()
        graph = graph.outer_graph
    outputs = [out for op in operations if op.type not in _WEIGHTS for out in op.outputs]
    largest = max(out.dtype.size * (out.shape.num_elements() or 0) for out in outputs)
    num_bytes = 2**30 if tf.config.list_logical_devices("GPU") else _CHUNK_BYTES
    # A pass needs about three tensors of the largest size at the same time.
    return max(1, num_bytes // (3 * max(largest, 1)))
