"""Eigenvalues of Jacobians and Hessians from their products with vectors."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from keras import ops
from scipy.sparse.linalg import ArpackError, LinearOperator, eigs, eigsh

from dann.autodiff import jvp
from dann.diagnostics.passes import as_vector, fit_mode, in_mode

_DENSE = 64  # number of unknowns up to which all eigenvalues are computed
_RESTARTS = 10
_TOLERANCE = 1e-2  # relative bound of ARPACK; most results are closer
_WIDTH = 1e-3  # of a central difference, relative to the norm of the weights


def spectrum(
    field: Callable[..., Sequence[Any]],
    values: Sequence[Any],
    k: int = 3,
    seed: int = 0,
    differences: bool = False,
) -> tuple[np.ndarray, float]:
    """Returns eigenvalues of `J = d field / d values` at `values`.

    The product with a vector is computed by `dann.autodiff.jvp`, or as the central difference

    - `J v = (field(w + h v) - field(w - h v)) / (2 h)`, with `h = 0.001 max(||w||, 1) / ||v||`

    For up to 64 unknowns all columns of `J` are computed. Above, Arnoldi's method with implicit
    restarts (ARPACK) finds eigenvalues from products alone.

    Args:
        field: Function of one tensor per value that returns tensors of the same shapes.
        values: Floating-point tensors.
        k: Number of eigenvalues per criterion. The criteria are the largest absolute value, the
            largest imaginary part and the smallest real part. Defaults to `3`.
        seed: Seed of the first vector.
        differences: Whether to take differences. A field that contains a gradient reversal needs
            them, because automatic differentiation would return a symmetric `J`, without the
            rotation of a game. They cross the kinks of ReLU, so eigenvalues of small networks
            change by some percent. Defaults to `False`.

    Returns:
        Complex numbers in descending order of their absolute values; for a large Jacobian only
        the `k` extreme eigenvalues per criterion. And the fraction of the requested eigenvalues
        that converged.

    Reference:
        - [Mescheder et al., 2017](https://arxiv.org/abs/1705.10461), section 3.
        - [Lehoucq et al., 1998](https://doi.org/10.1137/1.9780898719628), ARPACK.
    """

    def take_differences(xs, vs):
        width = _WIDTH * ops.maximum(_norm(xs), 1.0) / _norm(vs)
        above, below = (
            field(*(x + side * width * v for x, v in zip(xs, vs, strict=True))) for side in (1, -1)
        )
        return [(a - b) / (2 * width) for a, b in zip(above, below, strict=True)]

    differentiate = take_differences if differences else lambda xs, vs: jvp(field, xs, vs)[1]
    product = linear_operator(differentiate, values)
    size = product.shape[0]
    if size <= max(_DENSE, 2 * k + 2):
        return _sort(np.linalg.eigvals(product @ np.eye(size))), 1.0
    start = np.random.default_rng(seed).normal(size=size)
    # ARPACK's criteria: largest magnitude, largest imaginary part, smallest real part.
    criteria = ("LM", "LI", "SR")
    extremes = [_compute_extremes(product, criterion, k, start) for criterion in criteria]
    converged = sum(min(len(values), k) for values in extremes) / (len(criteria) * k)
    eigenvalues: list[Any] = []
    # The same eigenvalue may be extreme by several criteria.
    for value in _sort(np.concatenate(extremes)):
        if all(abs(value - earlier) > _TOLERANCE * abs(value) for earlier in eigenvalues):
            eigenvalues.append(value)
    return np.array(eigenvalues, complex), converged


def largest_eigenvalue(product: Any, seed: int = 0) -> float:
    """Returns the largest eigenvalue of a symmetric matrix from its products with vectors.

    For up to 64 rows the matrix is computed; above, Lanczos' method (ARPACK) needs only products.

    Args:
        product: Result of `linear_operator`.
        seed: Seed of the first vector. Defaults to `0`.
    """
    size = product.shape[0]
    if size <= _DENSE:
        matrix = product @ np.eye(size)
        return float(np.linalg.eigvalsh((matrix + matrix.T) / 2)[-1])
    start = np.random.default_rng(seed).normal(size=size)
    if not (product @ start).any():  # Lanczos' method cannot start from 0
        return 0.0
    tolerance: Any = _TOLERANCE / 10  # SciPy declares an integer
    options = {"which": "LA", "v0": start, "tol": tolerance, "return_eigenvectors": False}
    return float(eigsh(product, 1, **options)[0])


def linear_operator(differentiate: Callable[..., Any], values: Sequence[Any]) -> Any:
    """Returns the products of a square matrix of derivatives with vectors, for SciPy's solvers.

    Args:
        differentiate: Function of two lists of tensors, the point at which the matrix is taken and
            the vector, that returns the product as such a list.
        values: The point: floating-point tensors.
    """
    tensors: Any = [ops.convert_to_tensor(value) for value in values]
    sizes = [int(np.prod(tensor.shape)) for tensor in tensors]
    run = in_mode(differentiate, fit_mode())

    def multiply(vector):
        slices = np.split(np.ravel(vector), np.cumsum(sizes)[:-1])
        direction = [
            ops.convert_to_tensor(numbers.reshape(tensor.shape), dtype=tensor.dtype)
            for numbers, tensor in zip(slices, tensors, strict=True)
        ]
        result = as_vector(run(tensors, direction))
        if not np.isfinite(result).all():
            raise ValueError("Expected finite derivatives. Received: NaN, as after divergence")
        return result

    size = sum(sizes)
    return LinearOperator((size, size), matvec=multiply, dtype="float64")  # pyright: ignore


def _norm(tensors):
    return ops.norm(ops.concatenate([ops.reshape(tensor, (-1,)) for tensor in tensors]))


def _compute_extremes(product, criterion, k, start):
    """Returns up to `k` extreme eigenvalues by a criterion of ARPACK."""
    tolerance: Any = _TOLERANCE  # SciPy declares an integer
    options = {"v0": start, "maxiter": _RESTARTS, "tol": tolerance, "return_eigenvectors": False}
    try:
        return eigs(product, k, which=criterion, **options)
    except ArpackError as error:  # the eigenvalues that have converged are correct
        return getattr(error, "eigenvalues", np.empty(0, complex))


def _sort(values):
    values = np.asarray(values, complex)
    return values[np.argsort(-abs(values), kind="stable")]
