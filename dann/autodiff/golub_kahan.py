"""Bidiagonalization of a matrix that is known by its products with vectors."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops


def bidiagonalize(
    multiply: Callable, multiply_transposed: Callable, start: Any, steps: int
) -> tuple[Any, Any]:
    """Brings a batch of matrices to bidiagonal form, as far as `steps` go.

    With orthonormal `v_j` and `u_j`, and `v_1` along `start`,

    - `alpha_j u_j = A v_j - beta_{j-1} u_{j-1}`
    - `beta_j v_{j+1} = A^T u_j - alpha_j v_j`

    where each new vector is made orthogonal to all before it, twice, because rounding loses that.
    The singular values of the bidiagonal matrix, `(steps, steps + 1)`, approach those of `A` from
    below, the largest first. Where the vectors span all that `A` makes of `start`, a new start is
    drawn, so that equal singular values are found as often as they are there.

    Args:
        multiply: Function from `v`, `(batch, columns)`, to `A v`, `(batch, rows)`.
        multiply_transposed: Function from `u`, `(batch, rows)`, to `A^T u`.
        start: Random tensor `(batch, columns)`, float32 or float64.
        steps: Number of steps, at least 1.

    Returns:
        The diagonal `alpha` and the upper diagonal `beta`, each `(batch, steps)`.

    Reference:
        - [Golub and Kahan, 1965](https://doi.org/10.1137/0702016), section 2.
    """
    batch, columns = start.shape
    dtype = keras.backend.standardize_dtype(start.dtype)
    tiny = 32 * (2.0**-52 if dtype == "float64" else 2.0**-23)
    first = start / _norm(start)
    rows = multiply(first).shape[1]

    def step(index, state):
        right, left, alphas, betas, v, scale = state
        right = ops.slice_update(right, (0, index, 0), v[:, None])
        u = _orthogonal(multiply(v), left)
        alpha = _norm(u)
        scale = ops.maximum(scale, alpha)
        alpha, u = _normalized(u, alpha, tiny * scale, ops.zeros_like(u))
        left = ops.slice_update(left, (0, index, 0), u[:, None])
        v = _orthogonal(multiply_transposed(u), right)
        beta = _norm(v)
        scale = ops.maximum(scale, beta)
        # Sines of large multiples are as good as new random numbers.
        fresh = ops.sin(start * (37.0 * (ops.cast(index, dtype) + 1)))
        fresh = _orthogonal(fresh, right)
        fresh = fresh / ops.maximum(_norm(fresh), tiny)
        beta, v = _normalized(v, beta, tiny * scale, fresh)
        alphas = ops.slice_update(alphas, (0, index), alpha)
        betas = ops.slice_update(betas, (0, index), beta)
        return right, left, alphas, betas, v, scale

    def zeros(*shape):
        return ops.zeros(shape, dtype)

    state = (
        zeros(batch, steps, columns),
        zeros(batch, steps, rows),
        zeros(batch, steps),
        zeros(batch, steps),
        first,
        zeros(batch, 1),
    )
    final: Any = ops.fori_loop(0, steps, step, state)
    return final[2], final[3]


def _norm(vectors):
    return ops.sqrt(ops.sum(vectors**2, axis=1, keepdims=True))


def _orthogonal(vectors, basis):
    """Returns `vectors` without what lies in the span of `basis`, `(batch, steps, size)`."""
    for _ in range(2):
        shares = ops.matmul(basis, vectors[:, :, None])  # (batch, steps, 1)
        vectors = vectors - ops.matmul(ops.transpose(shares, (0, 2, 1)), basis)[:, 0]
    return vectors


def _normalized(vectors, norm, least, instead):
    """Returns `norm` and the unit vectors; where the norm is rounding error, 0 and `instead`."""
    some = norm > least
    units = vectors / ops.where(some, norm, ops.ones_like(norm))
    return ops.where(some, norm, ops.zeros_like(norm)), ops.where(some, units, instead)
