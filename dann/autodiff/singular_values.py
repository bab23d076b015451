"""The largest singular values of each example's Jacobian, without the Jacobian."""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.autodiff import batches
from dann.autodiff.engines import engine, push_forward
from dann.checks import check_integer


def singular_values(
    function: Callable[[Any], Any],
    inputs: Any,
    k: int,
    iterations: int | None = None,
    seed: int = 0,
) -> Any:
    """Returns the `k` largest singular values of each example's Jacobian, the largest first.

    Golub and Kahan's bidiagonalization, with the vectors of the smaller side kept orthogonal. Each
    iteration takes one product with the Jacobian, formed as in `jvp`, and one with its transpose.
    The values found approach the true ones from below, the largest first. With as many iterations
    as the Jacobian has rows or columns they are exact.

    Args:
        k: Number of singular values, from 1 to the number of inputs or outputs of an example,
            whichever is less.
        iterations: At least `k`. Defaults to `None`: `3 k + 10`, or exact if that is less.
        seed: Seed of the vectors that the iterations start from.

    The other arguments, and the errors, are those of `batch_jacobian`.

    Returns:
        A tensor `(batch, k)`, of the type of `inputs` but at least float32.

    They can be differentiated, so they can be part of a loss. With the unit vectors `u` and `v` of
    a value `s`, `ds = u^T dJ v`, which is exact where `s` is.

    Example:

    >>> import keras
    >>> from dann.autodiff import singular_values
    >>> scales = keras.ops.convert_to_tensor([1.0, 4.0, -3.0])
    >>> values = singular_values(lambda x: x * scales, [[0.0, 0.0, 0.0]], k=2)
    >>> [round(float(value), 3) for value in values[0]]
    [4.0, 3.0]

    Reference:
        - [Golub and Kahan, 1965](https://doi.org/10.1137/0702016), section 2.
        - [Simon and Zha, 2000](https://doi.org/10.1137/S1064827597327309): one side is enough.
    """
    x = batches.independent_batch(function, inputs)
    iterations = 3 * k + 10 if iterations is None else iterations
    check_integer("iterations", iterations, k, why="as each finds one more of the `k` values")
    return engine.run(function, _values, x, k=k, iterations=iterations, seed=seed)


def _values(call, x, k, iterations, seed):
    y, pull = batches.pull_back_examples(call, x)
    multiply_transposed = batches.of_vectors(pull, y, x)
    multiply = batches.of_vectors(push_forward([y], pull), x, y)
    columns = math.prod(x.shape[1:])
    rank = min(columns, math.prod(y.shape[1:]))
    check_integer("k", k, 1, rank, why="the rank that the Jacobian of an example can have")
    # While a batch of unknown size is traced, all examples share their start.
    start = np.random.default_rng(seed).normal(size=(x.shape[0] or 1, rank))
    if rank < columns:  # fewer outputs than inputs: take the transpose
        multiply, multiply_transposed = multiply_transposed, multiply
    start = ops.convert_to_tensor(start, keras.backend.result_type(x.dtype, "float32"))
    start = ops.broadcast_to(start, (ops.shape(x)[0], rank))
    basis, images = _expand(multiply, multiply_transposed, start, min(iterations, rank))
    # A V = U S W, and with v = V W^T and fixed u and v the derivative of s is that of u^T A v.
    parts: Any = ops.svd(ops.stop_gradient(ops.swapaxes(images, 1, 2)), False)
    left, values, right = parts
    vectors = ops.stop_gradient(ops.einsum("bks,bsn->kbn", right[:, :k], basis))
    pairs = ops.moveaxis(left[..., :k], -1, 0), vectors
    products = ops.map(lambda pair: ops.sum(multiply_transposed(pair[0]) * pair[1], axis=1), pairs)
    products = ops.moveaxis(products, 0, 1)
    return values[:, :k] + (products - ops.stop_gradient(products))


def _expand(multiply: Callable, multiply_transposed: Callable, start: Any, steps: int) -> tuple:
    """Returns an orthonormal basis of the Krylov spaces of matrices `A`, and what they make of it.

    With `v_1` along `start`, unit vectors `u_j` and orthonormal `v_j`,

    - `alpha_j u_j = A v_j - beta_{j-1} u_{j-1}`
    - `beta_j v_{j+1} = A^T u_j - alpha_j v_j`

    Each new `v` is made orthogonal to all before it, because rounding loses that. The `u` need not
    be: the singular values of `A V` approach those of `A` from below, the largest first, whatever
    led to `V`. Once the `v` span all that `A^T A` makes of `start`, it draws a new start, to find
    each of several equal singular values.

    Args:
        multiply: Function from `v`, `(batch, columns)`, to `A v`, `(batch, rows)`.
        multiply_transposed: Function from `u`, `(batch, rows)`, to `A^T u`.
        start: Random tensor `(batch, columns)`, float32 or float64.
        steps: Number of steps, at least 1.

    Returns:
        The `v_j`, `(batch, steps, columns)`, and the products `A v_j`, `(batch, steps, rows)`.
    """
    batch, columns = ops.shape(start)[0], start.shape[1]
    dtype = keras.backend.standardize_dtype(start.dtype)
    tiny = 32 * (2.0**-52 if dtype == "float64" else 2.0**-23)
    first = start / _norm(start)
    rows = multiply(first).shape[1]

    def step(index, basis, images, u, v, beta, scale):
        image = multiply(v)
        place = ops.one_hot(index, steps, dtype=dtype)[:, None]
        basis, images = basis + place * v[:, None], images + place * image[:, None]
        u = image - beta * u
        alpha = _norm(u)
        scale = _larger(scale, alpha)
        alpha, u = _normalized(u, alpha, tiny * scale, ops.zeros_like(u))
        v = _orthogonal(multiply_transposed(u), basis)
        beta = _norm(v)
        scale = _larger(scale, beta)

        def draw():
            # Sines of large multiples are as good as new random numbers.
            fresh = ops.sin(start * (37.0 * (ops.cast(index, dtype) + 1)))
            fresh = _orthogonal(fresh, basis)
            return fresh / _larger(_norm(fresh), ops.full_like(scale, tiny))

        fresh = ops.cond(ops.any(beta <= tiny * scale), draw, lambda: start)
        beta, v = _normalized(v, beta, tiny * scale, fresh)
        return index + 1, basis, images, u, v, beta, scale

    def zeros(*shape):
        return ops.zeros(shape, dtype)

    spaces = zeros(batch, steps, columns), zeros(batch, steps, rows)
    state = (0, *spaces, zeros(batch, rows), first, zeros(batch, 1), zeros(batch, 1))
    # XLA has no gradient of a loop whose number of steps it does not know.
    final: Any = ops.while_loop(lambda *_: True, step, state, maximum_iterations=steps)
    return final[1:3]


# On torch `ops.matmul` and `ops.maximum` make float32 of float64; `einsum` and `where` do not.


def _larger(one, other):
    return ops.where(one > other, one, other)


def _norm(vectors):
    """Returns the lengths `(batch, 1)`, of squares that neither overflow nor vanish."""
    largest = ops.max(ops.abs(vectors), axis=1, keepdims=True)
    unit = ops.where(largest > 0, largest, ops.ones_like(largest))
    return unit * ops.sqrt(ops.sum((vectors / unit) ** 2, axis=1, keepdims=True))


def _orthogonal(vectors, basis):
    """Returns `vectors` without their share in the span of `basis`, `(batch, steps, size)`."""
    for _ in range(2):
        shares = ops.einsum("bsn,bn->bs", basis, vectors)
        vectors = vectors - ops.einsum("bs,bsn->bn", shares, basis)
    return vectors


def _normalized(vectors, norm, least, instead):
    """Returns `norm` and the unit vectors, or 0 and `instead` if the norm is rounding error."""
    some = norm > least
    units = vectors / ops.where(some, norm, ops.ones_like(norm))
    return ops.where(some, norm, ops.zeros_like(norm)), ops.where(some, units, instead)
