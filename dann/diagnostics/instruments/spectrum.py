"""Eigenvalues of the Jacobian of a vector field, without the Jacobian."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from keras import ops
from scipy.sparse.linalg import ArpackError, LinearOperator, eigs, eigsh

from dann.autodiff import hvp, jvp
from dann.checks import check_integer
from dann.diagnostics.instruments.modes import in_mode, mode_of
from dann.diagnostics.instruments.vectors import to_numpy

_DENSE = 64  # up to so many unknowns all eigenvalues are computed
_RESTARTS = 10
_TOLERANCE = 1e-2  # relative; ARPACK's bound, its results are mostly closer
_WIDTH = 1e-3  # of a central difference, as a share of the weights' norm


class Spectrum(NamedTuple):
    """Eigenvalues of a Jacobian.

    Attributes:
        eigenvalues: Complex numbers, the largest absolute value first. For a large Jacobian only
            those at the ends: largest absolute value, largest imaginary part, smallest real part.
        products: How often the Jacobian was multiplied with a vector.
        converged: Share of the wanted eigenvalues that the solver found in its restarts. Those of
            the smallest real parts are the first to be missing.
    """

    eigenvalues: np.ndarray
    products: int
    converged: float


def spectrum(
    field: Callable[..., Sequence[Any]],
    values: Sequence[Any],
    k: int = 3,
    seed: int = 0,
    differences: bool = False,
) -> Spectrum:
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

    Raises:
        ValueError: If `k` is below 1.

    Reference:
        - [Mescheder et al., 2017](https://arxiv.org/abs/1705.10461), section 3.
        - [Lehoucq et al., 1998](https://doi.org/10.1137/1.9780898719628), ARPACK.
    """
    check_integer("k", k, 1)
    values = [ops.convert_to_tensor(value) for value in values]
    along = _by_differences if differences else lambda *point: jvp(*point)[1]
    product = Product(lambda xs, vs: along(field, xs, vs), values)
    if product.size <= max(_DENSE, 2 * k + 2):
        return Spectrum(_ordered(np.linalg.eigvals(product.dense())), product.count, 1.0)
    ends = [_ends(product, which, k, seed) for which in ("LM", "LI", "SR")]
    converged = sum(min(len(end), k) for end in ends) / (3 * k)
    return Spectrum(_once(_ordered(np.concatenate(ends))), product.count, converged)


def largest_eigenvalue(product: "Product", seed: int = 0) -> float:
    """Returns the largest eigenvalue of a symmetric `Product`, by Lanczos' method."""
    if product.size <= _DENSE:
        dense = product.dense()
        return float(np.linalg.eigvalsh((dense + dense.T) / 2)[-1])
    start = np.random.default_rng(seed).normal(size=product.size)
    if not product(start).any():  # Lanczos' method cannot start from 0
        return 0.0
    found = eigsh(
        product.operator(),
        k=1,
        which="LA",
        v0=start,
        tol=_TOLERANCE / 10,  # pyright: ignore[reportArgumentType]
        return_eigenvectors=False,
    )
    return float(found[0])


def hessian_product(function: Callable[..., Any], values: Sequence[Any]) -> "Product":
    """Returns the product of the Hessian of a scalar function at `values` with any vector."""
    values = [ops.convert_to_tensor(value) for value in values]
    return Product(lambda xs, vs: hvp(function, xs, vs), values)


class Product:
    """The product of a square matrix with vectors that are spread over several tensors.

    `product` takes two lists of tensors, the point `values` at which the matrix is taken and a
    direction, and returns the product as such a list.
    """

    def __init__(self, product: Callable, values: Sequence[Any]):
        self.values = list(values)
        self.shapes = [tuple(value.shape) for value in self.values]
        self.sizes = [int(np.prod(shape)) for shape in self.shapes]
        self.size = sum(self.sizes)
        self.count = 0
        number = len(self.values)
        self._product = in_mode(
            lambda *both: product(list(both[:number]), list(both[number:])), mode_of()
        )

    def __call__(self, vector: np.ndarray) -> np.ndarray:
        self.count += 1
        ends = np.cumsum(self.sizes)[:-1]
        parts = np.split(np.asarray(vector, "float64").reshape(-1), ends)
        direction = [
            ops.convert_to_tensor(part.reshape(shape), dtype=value.dtype)
            for part, shape, value in zip(parts, self.shapes, self.values, strict=True)
        ]
        result = [to_numpy(part).reshape(-1) for part in self._product(*self.values, *direction)]
        if not np.isfinite(np.concatenate(result)).all():
            raise ValueError(
                "Second derivatives must be finite; the training may have diverged. "
                "Received: NaN or infinity"
            )
        return np.concatenate(result)

    def dense(self) -> np.ndarray:
        """Returns the whole matrix `(size, size)`."""
        return np.stack([self(unit) for unit in np.eye(self.size)], axis=1)

    def operator(self) -> LinearOperator:
        """Returns the product as SciPy's solvers take it."""
        return LinearOperator((self.size, self.size), matvec=self, dtype="float64")  # pyright: ignore


def _by_differences(field, xs, vs):
    width = _WIDTH * ops.maximum(_norm(xs), 1.0) / _norm(vs)
    above, below = (
        field(*(x + side * width * v for x, v in zip(xs, vs, strict=True))) for side in (1, -1)
    )
    return [(a - b) / (2 * width) for a, b in zip(above, below, strict=True)]


def _norm(tensors):
    return ops.norm(ops.concatenate([ops.reshape(tensor, (-1,)) for tensor in tensors]))


def _ends(product, which, k, seed):
    start = np.random.default_rng(seed).normal(size=product.size)
    try:
        return eigs(
            product.operator(),
            k=k,
            which=which,
            v0=start,
            maxiter=_RESTARTS,
            tol=_TOLERANCE,  # pyright: ignore[reportArgumentType]
            return_eigenvectors=False,
        )
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
