"""The largest singular values of each example's Jacobian, without the Jacobian."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dann.autodiff.engines import running_engine
from dann.autodiff.golub_kahan import bidiagonalize
from dann.autodiff.independence import examine
from dann.autodiff.linear_maps import forward_map, transposed_map, working_dtype


def singular_values(
    function: Callable[[Any], Any],
    inputs: Any,
    k: int,
    iterations: int | None = None,
    seed: int = 0,
) -> Any:
    """Returns the `k` largest singular values of each example's Jacobian, the largest first.

    Golub and Kahan's bidiagonalization with full reorthogonalization: each iteration is one product
    with the Jacobian, formed as in `jvp`, and one with its transpose. The values found approach the
    true ones from below, the largest first; with as many iterations as the Jacobian has rows or
    columns they are exact.

    Args:
        function: Takes a batch of inputs and returns a batch of outputs, each of which depends on
            its own input alone; see `batch_jacobian`, also for what it refuses.
        inputs: Floating-point tensor or array, `(batch, ...)`.
        k: Number of singular values, from 1 to the number of inputs or outputs of an example,
            whichever is less.
        iterations: At least `k`. Defaults to `None`: `3 k + 10`, or exact if that is less.
        seed: Of the vectors that the iterations start from.

    Returns:
        A tensor `(batch, k)`, of the type of `inputs` but at least float32.

    Raises:
        NotImplementedError, TypeError, ValueError: As in `batch_jacobian`.

    Example:

    >>> import keras
    >>> from dann.autodiff import singular_values
    >>> scales = keras.ops.convert_to_tensor([1.0, 4.0, -3.0])
    >>> values = singular_values(lambda x: x * scales, [[0.0, 0.0, 0.0]], k=2)
    >>> [round(float(value), 3) for value in values[0]]
    [4.0, 3.0]

    Reference:
        - [Golub and Kahan, 1965](https://doi.org/10.1137/0702016), section 2.
    """
    x, shape = examine(function, inputs)
    batch, columns = x.shape[0], math.prod(x.shape[1:])
    rank = min(columns, math.prod(shape))
    if not _is_whole(k) or not 1 <= k <= rank:
        raise ValueError(
            f"Argument `k` must be a whole number from 1 to {rank}, the rank that the Jacobian of "
            f"an example can have. Received: k={k}"
        )
    if iterations is None:
        iterations = 3 * k + 10
    if not _is_whole(iterations) or iterations < k:
        raise ValueError(
            "Argument `iterations` must be a whole number of at least `k`. "
            f"Received: {iterations} and k={k}"
        )
    engine, dtype = running_engine(), working_dtype(x)
    start = engine.tensor(np.random.default_rng(seed).normal(size=(batch, columns)).astype(dtype))
    steps = min(iterations, rank)
    diagonals = engine.run(function, _bidiagonal_form, x, start, steps=steps)
    alphas, betas = (np.asarray(diagonal, "float64") for diagonal in diagonals)
    # The last beta stays: these rows are all that the vectors `u` see of the Jacobian.
    matrices = np.zeros((batch, steps, steps + 1))
    index = np.arange(steps)
    matrices[:, index, index] = alphas
    matrices[:, index, index + 1] = betas
    values = np.linalg.svd(matrices, compute_uv=False)[:, :k]
    return engine.tensor(values.astype(dtype))


def _is_whole(number):
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def _bidiagonal_form(call, x, start, steps):
    return bidiagonalize(forward_map(call, x), transposed_map(call, x), start, steps)
