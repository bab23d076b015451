"""The TensorFlow side of derivatives: tapes, and programs that run as graphs."""

import math
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from dann.autodiff.function_cache import cached_with
from dann.autodiff.functions import as_function, as_pure_function

ENGINES = ("pfor", "while", "forward")
_ZERO = tf.UnconnectedGradients.ZERO
_LOOPS = {"While", "StatelessWhile"}
_WEIGHTS = {"Const", "ReadVariableOp", "VarHandleOp"}


def tensor(value: Any) -> Any:
    """Returns a value as a tensor of its own type."""
    return tf.convert_to_tensor(value)


def is_concrete(value: Any) -> bool:
    """Whether a tensor has a value, and is not a symbol in a function that is being traced."""
    return not tf.is_symbolic_tensor(value)


def pull_back(function: Callable, xs: list) -> tuple[Any, Callable]:
    """Returns a function's outputs, and the function from upstream gradients to gradients."""
    # A tape compares tensors by identity. It must not take a tensor that is given twice, or that
    # the function itself reads, for the argument.
    xs = [tf.identity(x) for x in xs]
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
        tape.watch(xs)
        outputs = keras.tree.map_structure(tensor, function(*xs))
    ys = keras.tree.flatten(outputs)

    def pull(upstream, unconnected="zero"):
        gradients = tape.gradient(ys, xs, upstream, tf.UnconnectedGradients(unconnected))
        return [None if g is None else tensor(g) for g in gradients]

    return outputs, pull


def push_forward(function: Callable, xs: list) -> tuple[Any, Callable]:
    """Returns a function's outputs, and the function from tangents to the outputs' tangents."""
    outputs, pull = pull_back(function, xs)
    # The gradients are linear in the upstream ones, so any value does.
    upstream = [tf.zeros_like(y) for y in keras.tree.flatten(outputs)]
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
        tape.watch(upstream)
        gradients = pull(upstream)

    def push(tangents):
        return tape.gradient(gradients, upstream, tangents, _ZERO)

    return outputs, push


def jacobian(call: Callable, x: Any) -> Any:
    """Returns the whole Jacobian, vectorized over the outputs."""
    x = tf.identity(x)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(x)
        y = tensor(call(x))
    return tape.jacobian(y, x, unconnected_gradients=_ZERO)


def rows(call: Callable, x: Any, at_once: int) -> Any:
    """Returns each example's Jacobian, `(batch, *output, *example)`, some outputs at a time."""
    if len(x.shape) == 1:  # TensorFlow wants a number to be a row of one
        of_rows = rows(lambda row: call(tf.reshape(row, x.shape)), x[:, None], at_once)
        return tf.squeeze(of_rows, axis=-1)
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
        tape.watch(x)
        y = call(x)
        flat = y if len(y.shape) == 2 else tf.reshape(y, (x.shape[0], -1))
    matrix = _batch_jacobian(tape, flat, x, at_once)
    return matrix if flat is y else tf.reshape(matrix, (*y.shape, *x.shape[1:]))


def columns(call: Callable, x: Any, at_once: int) -> Any:
    """Returns what `rows` returns, from the derivatives along some inputs at a time."""
    y, pull = pull_back(call, [x])
    upstream = tf.zeros((x.shape[0], math.prod(y.shape[1:])), y.dtype)
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
        tape.watch(upstream)
        gradient = tf.reshape(pull([tf.reshape(upstream, y.shape)])[0], (x.shape[0], -1))
    transposed = _batch_jacobian(tape, gradient, upstream, at_once)
    return tf.reshape(tf.transpose(transposed, (0, 2, 1)), (*y.shape, *x.shape[1:]))


def _batch_jacobian(tape, y, x, at_once):
    # `None` stands for all rows at a time.
    parallel = None if at_once >= y.shape[1] else at_once
    vectorized = at_once > 1 or parallel is None
    return tape.batch_jacobian(y, x, _ZERO, parallel, vectorized)


def measured(function: Any, x: Any) -> tuple[int, bool]:
    """Returns the elements of the largest tensor on the way to a function's output, and `True` if
    there are loops: derivatives of their derivatives cannot be vectorized."""
    program = tf.function(as_pure_function(function), autograph=False)
    traced = program.get_concrete_function(tf.TensorSpec(x.shape, x.dtype))
    definition = traced.graph.as_graph_def(add_shapes=True)
    bodies = [definition.node, *(body.node_def for body in definition.library.function)]
    shapes = [
        [axis.size for axis in shape.dim]
        for nodes in bodies
        for node in nodes
        if node.op not in _WEIGHTS
        for shape in node.attr["_output_shapes"].list.shape
    ]
    largest = max(math.prod(shape) for shape in shapes if min(shape, default=0) >= 0)
    return largest, any(node.op in _LOOPS for nodes in bodies for node in nodes)


def run(function: Any, program: Callable, *tensors: Any, **static: Any) -> Any:
    """Runs `program(call, *tensors, **static)` as a graph, which is cached with `function`.

    The program gets the function or Keras model as `call`. Each value in `static` makes a compiled
    program of its own.
    """
    if not is_concrete(tensors[0]):
        return program(as_function(function), *tensors, **static)

    def make(get):
        def traced(*tensors):
            return program(as_pure_function(get()), *tensors, **static)

        specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in tensors]
        return tf.function(traced, autograph=False).get_concrete_function(*specs)

    signature = [(tuple(tensor.shape), tensor.dtype) for tensor in tensors]
    return cached_with(function, (program, *static.items(), *signature), make)(*tensors)
