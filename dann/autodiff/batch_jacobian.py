"""The Jacobian of each example of a batch, by the engine that suits its size."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from dann.autodiff.engines import running_engine
from dann.autodiff.independence import examine
from dann.autodiff.kept import kept
from dann.autodiff.plan import ENGINES, make_plan


class BatchJacobian(NamedTuple):
    """The Jacobians of a batch, and how they were computed.

    Attributes:
        values: Tensor `(batch, *output, *input)`.
        engine: `"pfor"`, `"while"` or `"forward"`.
        bytes: The memory that the engine was estimated to need at its peak.
    """

    values: Any
    engine: str
    bytes: int


def batch_jacobian(
    function: Callable[[Any], Any],
    inputs: Any,
    engine: str = "auto",
    memory_budget: int = 2**30,
) -> BatchJacobian:
    """Returns the Jacobian of each example's output with respect to its own input.

    - `values[b, i, j] = df_i(x_b)/dx_bj`, with multi-indices `i` and `j`

    The engines give the same values. With `B` examples of `I` numbers each, `O` outputs of each,
    and `A` elements of an example in the largest tensor that the function computes:

    - `"pfor"`: backward passes, vectorized for `m` outputs at a time; memory `B (3 O I + 3 m A)`.
    - `"while"`: one backward pass after another; memory `B (3 O I + 6 A)`.
    - `"forward"`: derivatives as in `jvp`, vectorized for `m` inputs at a time; memory
      `B (3 O I + 3 m A)`.

    `"auto"` takes `"forward"` where `4 I < O`, else `"pfor"`, with `m` as large as the budget
    allows; on a processor only as large as is fast there. Where that is 1, it takes `"while"`.
    Everything runs compiled. A Keras model or a `tf.function` is compiled once for each shape, a
    model again where layers or variables have come or gone since; a plain function, which may have
    changed in any way, at each call. Of other changes to a model, such as another `activation` of a
    layer, nothing is seen: then give `lambda x: model(x, training=False)`.

    Args:
        function: Takes a batch of inputs and returns a batch of outputs, `(batch, ...)`, each of
            which depends on its own input alone. Or a Keras model; it is called with
            `training=False`.
        inputs: Floating-point tensor or array, `(batch, ...)`.
        engine: One of the above, or `"auto"`.
        memory_budget: Bytes that the computation may take at its peak, estimated from the shapes.
            Defaults to 1 GiB.

    Raises:
        NotImplementedError: On a Keras backend other than TensorFlow and JAX.
        TypeError: If inputs or outputs are not floating, or the inputs have no values.
        ValueError: If outputs depend on other examples, as with batch statistics, or differ between
            two calls, as with dropout in training; if no engine fits the budget; or if an argument
            is out of range.

    Example:

    >>> import keras
    >>> from dann.autodiff import batch_jacobian
    >>> weights = keras.ops.convert_to_tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> result = batch_jacobian(lambda x: keras.ops.matmul(x, weights), [[0.0, 0.0, 0.0]])
    >>> [[float(value) for value in row] for row in result.values[0]]
    [[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]]
    >>> result.engine
    'pfor'
    """
    if engine not in ("auto", *ENGINES):
        raise ValueError(
            f"Argument `engine` must be 'auto' or one of {list(ENGINES)}. Received: {engine!r}"
        )
    x, shape = examine(function, inputs)
    backend = running_engine()
    # One look-up for all that the shapes decide.
    key = ("plan", tuple(x.shape), x.dtype, engine, memory_budget)

    def make(get):
        largest = backend.largest_tensor(get(), x)
        return make_plan(x, math.prod(shape), largest, engine, memory_budget)

    plan = kept(function, key, make)
    program = backend.columns if plan.engine == "forward" else backend.rows
    values = backend.run(function, program, x, at_once=plan.at_once)
    return BatchJacobian(values, plan.engine, plan.bytes)
