"""The Jacobian of each example of a batch, by the engine that suits its size."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import keras

from dann.autodiff.engines import running_engine
from dann.autodiff.function_cache import cached_with
from dann.autodiff.independence import check_independence
from dann.checks import check_choice, check_flag

# Larger parts are slower on a processor (caches, page faults); measured in `docs/performance.md`.
_FAST_BYTES = 2**25


class BatchJacobian(NamedTuple):
    """The Jacobians of a batch, and how they were computed.

    Attributes:
        values: Tensor `(batch, *output, *input)`.
        engine: `"pfor"`, `"while"` or `"forward"`.
        bytes: Estimate of the engine's peak memory.
    """

    values: Any
    engine: str
    bytes: int


def batch_jacobian(
    function: Callable[[Any], Any],
    inputs: Any,
    engine: str = "auto",
    memory_budget: int = 2**30,
    with_plan: bool = False,
) -> Any:
    """Returns the Jacobian of each example's output with respect to its own input.

    - `values[b, i, j] = df_i(x_b)/dx_bj`, with multi-indices `i` and `j`

    The engines give the same values. With `B` examples of `I` numbers each, `O` outputs of each,
    and `A` elements of an example in the largest tensor that the function computes:

    - `"pfor"`: backward passes, vectorized for `m` outputs at a time; memory `B (3 O I + 3 m A)`.
    - `"while"`: one backward pass after another; memory `B (3 O I + 6 A)`.
    - `"forward"`: derivatives as in `jvp`, vectorized for `m` inputs at a time; memory
      `B (3 O I + 3 m A)`.

    `"auto"` takes `"forward"` if `4 I < O` (on TensorFlow not for loops, as in an LSTM), else
    `"pfor"`. It chooses `m` as large as the budget allows, on a processor as large as is fast. If
    `m` would be 1, it takes `"while"`.

    Everything runs compiled. A Keras model or a `tf.function` is compiled once for each shape, and
    a model again after layers or variables were added or removed. A plain function is compiled at
    each call, as it may have changed. Other changes to a model, such as a new `activation` of a
    layer, go unnoticed; for those pass `lambda x: model(x, training=False)`.

    Args:
        function: Takes a batch of inputs and returns a batch of outputs, `(batch, ...)`, each of
            which depends on its own input alone. Or a Keras model; it is called with
            `training=False`.
        inputs: Floating-point tensor or array, `(batch, ...)`.
        engine: One of the above, or `"auto"`. On torch there is `"while"` alone.
        memory_budget: Bytes that the computation may take at its peak, as estimated from the
            shapes. Defaults to 1 GiB.
        with_plan: Whether to return a `BatchJacobian`, which also tells the engine and its memory.
            Defaults to `False`.

    Returns:
        A tensor `(batch, *output, *input)`, or a `BatchJacobian` that holds it.

    Raises:
        NotImplementedError: On a Keras backend other than TensorFlow, JAX and torch.
        TypeError: If inputs or outputs are not floating, or the inputs have no values.
        ValueError: If outputs depend on other examples, as with batch statistics; if they differ
            between two calls, as with dropout in training; if no engine fits the budget; or if an
            argument is out of range.

    Example:

    >>> import keras
    >>> from dann.autodiff import batch_jacobian
    >>> weights = keras.ops.convert_to_tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> result = batch_jacobian(lambda x: keras.ops.matmul(x, weights), [[0.0, 0.0, 0.0]])
    >>> [[float(value) for value in row] for row in result[0]]
    [[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]]
    """
    backend = running_engine()
    check_choice("engine", engine, ("auto", *backend.ENGINES))
    if len(backend.ENGINES) == 1:
        (engine,) = backend.ENGINES
    check_flag("with_plan", with_plan)
    x, shape = check_independence(function, inputs)
    key = ("plan", tuple(x.shape), x.dtype, engine, memory_budget)

    def make(get):
        largest, loops = backend.measured(get(), x)
        return _make_plan(x, math.prod(shape), largest, loops, engine, memory_budget)

    plan = cached_with(function, key, make)
    program = backend.columns if plan.engine == "forward" else backend.rows
    values = backend.run(function, program, x, at_once=plan.at_once)
    return BatchJacobian(values, plan.engine, plan.bytes) if with_plan else values


class _Plan(NamedTuple):
    """How to compute the Jacobians of a batch.

    Attributes:
        engine: `"pfor"`, `"while"` or `"forward"`.
        at_once: How many outputs (with `"forward"` inputs) one vectorized pass covers.
        bytes: Estimate of the peak memory.
    """

    engine: str
    at_once: int
    bytes: int


def _make_plan(
    inputs: Any, outputs: int, largest: int, loops: bool, engine: str, memory_budget: int
) -> _Plan:
    """Returns the plan for an engine, or for the one that suits the sizes.

    An example has `outputs` outputs. The largest tensor that the function computes for the whole
    batch has `largest` elements, and `loops` says that `"forward"` cannot be vectorized.
    """
    dtype = keras.backend.standardize_dtype(inputs.dtype)
    width = {"float16": 2, "bfloat16": 2, "float64": 8}.get(dtype, 4)
    columns = math.prod(inputs.shape[1:])
    result = 3 * width * inputs.shape[0] * outputs * columns
    one = 3 * width * largest
    if engine in ("auto", "while"):
        preferred = "forward" if 4 * columns < outputs and not loops else "pfor"
    else:
        preferred = engine
    passes = columns if preferred == "forward" else outputs
    room = memory_budget - result
    on_processor = "cpu" in str(inputs.device).lower()
    at_once = min(passes, (min(room, _FAST_BYTES) if on_processor else room) // one)
    if engine == "while" or (engine == "auto" and at_once < min(2, passes)):
        plan = _Plan("while", 1, result + 2 * one)
    else:
        # The smallest parts that need as few passes.
        at_once = math.ceil(passes / math.ceil(passes / max(at_once, 1)))
        plan = _Plan(preferred, at_once, result + at_once * one)
    if plan.bytes > memory_budget:
        raise ValueError(
            f"Engine {plan.engine!r} would need about {plan.bytes:,} bytes. Raise `memory_budget`, "
            "take fewer examples, or use `singular_values` or `frobenius_norm`, which need no "
            f"Jacobian. Received: memory_budget={memory_budget:,}"
        )
    return plan
