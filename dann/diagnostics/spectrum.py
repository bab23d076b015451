"""Eigenvalues of the Jacobian of a vector field, without the Jacobian."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from keras import ops
from scipy.sparse.linalg import ArpackError, LinearOperator, eigs, eigsh

from dann.autodiff import jvp
from dann.diagnostics.passes import as_vector, in_mode, mode_of

_DENSE = 64  # up to so many unknowns all eigenvalues are computed
_RESTARTS = 10
_TOLERANCE = 1e-2  # relative; ARPACK's bound, its results are mostly closer
_WIDTH = 1e-3  # of a central difference, as a share of the weights' norm


def spectrum(
    field: Callable[..., Sequence[Any]],
    values: Sequence[Any],
    k: int = 3,
    seed: int = 0,
    differences: bool = False,
) -> tuple[np.ndarray, float]:
    """Returns eigenvalues of `J = d field / d values` at `values`.

    `J v` is formed by differentiating twice backward (`dann.autodiff.jvp`), or as

    - `(field(w + h v) - field(w - h v)) / (2 h)`, with `h = .001 max(||w||, 1) / ||v||`

    Up to 64 unknowns `J` is formed as a whole. Above, Arnoldi's method with implicit restarts
    (ARPACK) finds the eigenvalues without it.

    Args:
        field: Takes as many tensors as `values` holds and returns as many, in the same shapes.
            Without `differences` it must not contain a gradient reversal: `J` would be symmetric,
            without the rotation of a game.
        values: Floating-point tensors.
        k: Number of eigenvalues at each of the three ends. Defaults to `3`.
        seed: Seed of the first vector.
        differences: Whether `J v` comes from differences of the field. Defaults to `False`.

    Returns:
        Complex numbers, the largest absolute value first, for a large Jacobian only those at the
        ends: largest absolute value, largest imaginary part, smallest real part. And the share of
        the wanted eigenvalues that were found.

    Reference:
        - [Mescheder et al., 2017](https://arxiv.org/abs/1705.10461), section 3.
        - [Lehoucq et al., 1998](https://doi.org/10.1137/1.9780898719628), ARPACK.
    """
    along = _by_differences if differences else lambda *point: jvp(*point)[1]
    product = linear_operator(lambda xs, vs: along(field, xs, vs), values)
    size = product.shape[0]
    if size <= max(_DENSE, 2 * k + 2):
        return _ordered(np.linalg.eigvals(product @ np.eye(size))), 1.0
    start = np.random.default_rng(seed).normal(size=size)
    ends = [_end(product, which, k, start) for which in ("LM", "LI", "SR")]
    converged = sum(min(len(end), k) for end in ends) / (3 * k)
    return _once(_ordered(np.concatenate(ends))), converged


def largest_eigenvalue(product: Any, seed: int = 0) -> float:
    """Returns the largest eigenvalue of a symmetric product, by Lanczos' method."""
    size = product.shape[0]
    if size <= _DENSE:
        matrix = product @ np.eye(size)
        return float(np.linalg.eigvalsh((matrix + matrix.T) / 2)[-1])
    start = np.random.default_rng(seed).normal(size=size)
    if not (product @ start).any():  # Lanczos' method cannot start from 0
        return 0.0
    tolerance: Any = _TOLERANCE / 10  # SciPy declares an integer
    found = eigsh(product, 1, which="LA", v0=start, tol=tolerance, return_eigenvectors=False)
    return float(found[0])


def linear_operator(product: Callable[..., Any], values: Sequence[Any]) -> Any:
    """Returns the product of a square matrix with vectors as SciPy's solvers take it.

    Args:
        product: Takes two lists of tensors, the point `values` at which the matrix is taken and a
            direction, and returns the product as such a list.
        values: Floating-point tensors.
    """
    values = [ops.convert_to_tensor(value) for value in values]
    sizes = [int(np.prod(value.shape)) for value in values]
    run = in_mode(product, mode_of())

    def matvec(vector):
        parts = np.split(np.ravel(vector), np.cumsum(sizes)[:-1])
        direction = [
            ops.convert_to_tensor(part.reshape(value.shape), dtype=value.dtype)
            for part, value in zip(parts, values, strict=True)
        ]
        result = as_vector(run(values, direction))
        if not np.isfinite(result).all():
            raise ValueError(
                "Second derivatives must be finite; the training may have diverged. "
                "Received: NaN or infinity"
            )
        return result

    size = sum(sizes)
    return LinearOperator((size, size), matvec=matvec, dtype="float64")  # pyright: ignore


def _by_differences(field, xs, vs):
    width = _WIDTH * ops.maximum(_norm(xs), 1.0) / _norm(vs)
    above, below = (
        field(*(x + side * width * v for x, v in zip(xs, vs, strict=True))) for side in (1, -1)
    )
    return [(a - b) / (2 * width) for a, b in zip(above, below, strict=True)]


def _norm(tensors):
    return ops.norm(ops.concatenate([ops.reshape(tensor, (-1,)) for tensor in tensors]))


def _end(product, which, k, start):
    tolerance: Any = _TOLERANCE  # SciPy declares an integer
    options = {"v0": start, "maxiter": _RESTARTS, "tol": tolerance, "return_eigenvectors": False}
    try:
        return eigs(product, k, which=which, **options)
    except ArpackError as error:  # those that have converged are right
        return getattr(error, "eigenvalues", np.empty(0, complex))


def _ordered(values):
    values = np.asarray(values, complex)
    return values[np.argsort(-abs(values), kind="stable")]


def _once(values):
    """Returns eigenvalues that several ends have found once each."""
    kept = []
    for value in values:
        if all(abs(value - other) > _TOLERANCE * abs(value) for other in kept):
            kept.append(value)
    return np.array(kept, complex)
