"""The TensorFlow side of derivatives: tapes, and programs that run as graphs."""

import math
from collections.abc import Callable
from typing import Any

import keras
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
    tape, outputs, sources = _recorded(function, xs)
    ys = keras.tree.flatten(outputs)

    def pull(upstream, unconnected="zero"):
        gradients = tape.gradient(ys, sources, upstream)
        return _by_argument(gradients, xs, tf.zeros_like if unconnected == "zero" else None)

    return outputs, pull


def jacobian(function: Callable, xs: list) -> list[Any]:
    """Returns the whole Jacobian by each of `xs`, vectorized over the outputs."""
    tape, y, sources = _recorded(function, xs)

    def zeros(x):
        return tf.zeros([*y.shape, *x.shape], y.dtype)

    return _by_argument(tape.jacobian(y, sources), xs, zeros)


def batch_jacobian(call: Callable, x: Any) -> Any:
    """Returns each example's Jacobian, `(batch, *output, *example)`, some outputs at a time."""
    if len(x.shape) == 1:  # TensorFlow wants a number to be a row of one
        return tf.squeeze(batch_jacobian(lambda row: call(row[:, 0]), x[:, None]), axis=-1)
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
        tape.watch(x)
        y = call(x)
        flat = y if len(y.shape) == 2 else tf.reshape(y, (-1, math.prod(y.shape[1:])))
    at_once = _rows_at_once(y)
    parallel = None if at_once >= flat.shape[1] else at_once  # `None` stands for all
    vectorized = at_once > 1 or parallel is None
    matrix = tape.batch_jacobian(flat, x, tf.UnconnectedGradients.ZERO, parallel, vectorized)
    if flat is y:
        return matrix
    return tf.reshape(matrix, (y.shape[0] or -1, *y.shape[1:], *x.shape[1:]))


def run(function: Any, program: Callable, x: Any, **static: Any) -> Any:
    """Runs `program(call, x, **static)` as a graph, which is kept for a Keras model."""
    if not has_value(x):
        return program(as_function(function), x, **static)

    def make(get):
        return tf.function(lambda x: program(as_pure_function(get()), x, **static), autograph=False)

    return program_of(function, (program, *static.items()), make)(x)


def _recorded(function, xs):
    """A tape, the outputs, and what to differentiate by: the arguments, then the variables."""
    # A tape compares tensors by identity. It must not take a tensor that is given twice, or that
    # the function itself reads, for the argument.
    arguments = [tf.identity(x) for x in xs]
    variables = [x.value if isinstance(x, keras.Variable) else x for x in xs if _is_variable(x)]
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
        tape.watch([*arguments, *variables])
        outputs = keras.tree.map_structure(tensor, function(*arguments))
    return tape, outputs, [*arguments, *variables]


def _by_argument(found, xs, zeros):
    """What was found by each argument, plus what was by the variable that it is."""
    found = [None if value is None else tensor(value) for value in found]
    of_variables = iter(found[len(xs) :])
    for index, x in enumerate(xs):
        parts = [found[index], next(of_variables)] if _is_variable(x) else [found[index]]
        parts = [part for part in parts if part is not None]
        found[index] = sum(parts[1:], parts[0]) if parts else zeros and zeros(x)
    return found[: len(xs)]


def _is_variable(x):
    return isinstance(x, VARIABLES)


def _rows_at_once(y):
    """How many outputs one vectorized pass covers, by the largest tensor that the graph computes.

    Larger parts are slower on a processor (caches, page faults), as `docs/performance.md` shows.
    """
    operations = [op for op in y.graph.get_operations() if op.type not in _WEIGHTS]
    largest = max(out.shape.num_elements() or 0 for op in operations for out in op.outputs)
    room = 2**30 if tf.config.list_logical_devices("GPU") else _FAST_BYTES
    return max(1, room // (3 * y.dtype.size * max(largest, 1)))
