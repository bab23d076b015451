"""Largest singular values of the Jacobian of each example, without the Jacobian."""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.autodiff import batches
from dann.autodiff.engines import engine, is_linear, push_forward
from dann.checks import check_integer


def singular_values(
    function: Callable[[Any], Any],
    inputs: Any,
    k: int,
    iterations: int | None = None,
    seed: int = 0,
) -> Any:
    """Returns the `k` largest singular values of the Jacobian of each example, in descending order.

    The method is the bidiagonalization of Golub and Kahan, with reorthogonalized vectors on the
    smaller side. Each iteration computes one product with the Jacobian, by the method of `jvp`, and
    one product with its transpose. The computed values approach the true values from below, the
    largest first. They are exact after as many iterations as the Jacobian has rows or columns.

    The values can be differentiated, so they can be part of a loss. With the left and right
    singular vectors `u` and `v` of a value `s`, `ds = u^T dJ v`, which is exact if `s` is exact.

    Args:
        function: Function of a batch of inputs that returns a batch of outputs, each of which
            depends on its own input alone; or a Keras model, called with `training=False`.
        inputs: Floating-point tensor or array, `(batch, ...)`.
        k: Number of singular values, from 1 to the number of inputs or outputs of an example,
            whichever is less.
        iterations: Number of iterations, at least `k`. Defaults to `None`: `3 k + 10`, or the
            number for exact values if it is less.
        seed: Seed of the initial vectors. Defaults to `0`.

    Returns:
        A tensor `(batch, k)`, of the type of `inputs` but at least float32.

    Raises:
        TypeError: If inputs or outputs are not floating.
        ValueError: If `k` or `iterations` is out of range; if outputs depend on other examples or
            differ between two calls; if an overridden gradient is not linear in the upstream
            gradient (on JAX, an added constant is not detected). In a compiled function the values
            are then NaN.

    Example:

    >>> import keras
    >>> from dann.autodiff import singular_values
    >>> scales = keras.ops.convert_to_tensor([1.0, 4.0, -3.0])
    >>> values = singular_values(lambda x: x * scales, [[0.0, 0.0, 0.0]], k=2)
    >>> [round(float(value), 3) for value in values[0]]
    [4.0, 3.0]

    Reference:
        - [Golub and Kahan, 1965](https://doi.org/10.1137/0702016), section 2.
        - [Simon and Zha, 2000](https://doi.org/10.1137/S1064827597327309), one-sided
          reorthogonalization.
    """
    x = batches.check_batch(function, inputs)
    iterations = 3 * k + 10 if iterations is None else iterations
    hint = "because each iteration adds one singular value"
    check_integer("iterations", iterations, k, hint=hint)
    program = engine.run(function, _values_program, x, k=k, iterations=iterations, seed=seed)
    return batches.require_linear(*program)


def _values_program(call, x, k, iterations, seed):
    y, pull = batches.pull_back_examples(call, x)
    multiply_transposed = batches.as_vector_product(pull, y, x)
    multiply = batches.as_vector_product(push_forward([y], pull), x, y)
    columns = math.prod(x.shape[1:])
    rank = min(columns, math.prod(y.shape[1:]))
    check_integer("k", k, 1, rank, hint="the largest rank of the Jacobian of an example")
    # If the batch size is unknown during tracing, all examples share their initial vectors.
    start = np.random.default_rng(seed).normal(size=(x.shape[0] or 1, rank))
    if rank < columns:  # fewer outputs than inputs: use the transpose
        multiply, multiply_transposed = multiply_transposed, multiply
    start = ops.convert_to_tensor(start, keras.backend.result_type(x.dtype, "float32"))
    start = ops.broadcast_to(start, (ops.shape(x)[0], rank))
    basis, images = _expand(multiply, multiply_transposed, start, min(iterations, rank))
    # With A V = U S W and v = V W^T, ds = d(u^T A v) for constant u and v.
    # images is (batch, steps, rows), so its transpose has the columns A v_j.
    decomposition: Any = ops.svd(ops.stop_gradient(ops.swapaxes(images, 1, 2)), False)
    u, s, w = decomposition
    v = ops.stop_gradient(ops.einsum("bks,bsn->kbn", w[:, :k], basis))  # (k, batch, columns)
    pairs = ops.moveaxis(u[..., :k], -1, 0), v  # (k, batch, size)
    products = ops.map(lambda pair: ops.sum(multiply_transposed(pair[0]) * pair[1], axis=1), pairs)
    products = ops.moveaxis(products, 0, 1)  # (batch, k)
    values = s[:, :k] + (products - ops.stop_gradient(products))
    return values, is_linear(x, y, pull)


def _expand(multiply: Callable, multiply_transposed: Callable, start: Any, steps: int) -> tuple:
    """Returns orthonormal bases of the Krylov spaces of matrices `A`, and their images under `A`.

    With `v_1` along `start`, unit vectors `u_j` and orthonormal `v_j`,

    - `alpha_j u_j = A v_j - beta_{j-1} u_{j-1}`
    - `beta_j v_{j+1} = A^T u_j - alpha_j v_j`

    Each new `v` is made orthogonal to all earlier ones, because rounding destroys orthogonality.
    The `u` need not be orthogonal: the singular values of `A V` approach the singular values of `A`
    from below, the largest first, for every `V`. Once the `v` span the Krylov space of `start`, the
    next `v` is random, to find each of several equal singular values.

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
    # Norms below this fraction of the largest norm are rounding errors: 32 times the spacing of
    # the numbers around 1.
    tolerance = 32 * (2.0**-52 if dtype == "float64" else 2.0**-23)
    first = start / _norm(start)
    rows = multiply(first).shape[1]

    def step(index, basis, images, u, v, beta, scale):
        image = multiply(v)  # (batch, rows)
        # Stores `v` and `A v` in row `index` of the bases; (steps, 1) broadcasts to
        # (batch, steps, size).
        row = ops.one_hot(index, steps, dtype=dtype)[:, None]
        basis, images = basis + row * v[:, None], images + row * image[:, None]
        u = image - beta * u  # alpha_j u_j
        alpha = _norm(u)
        scale = _maximum(scale, alpha)
        alpha, u = _normalize(u, alpha, tolerance * scale, ops.zeros_like(u))
        # beta_j v_{j+1}; the projection also subtracts alpha_j v_j.
        v = _orthogonalize(multiply_transposed(u), basis)
        beta = _norm(v)
        scale = _maximum(scale, beta)

        def draw():
            # Sines of large multiples of random numbers serve as new random numbers.
            random_vectors = ops.sin(start * (37.0 * (ops.cast(index, dtype) + 1)))
            random_vectors = _orthogonalize(random_vectors, basis)
            return random_vectors / _maximum(_norm(random_vectors), ops.full_like(scale, tolerance))

        default = ops.cond(ops.any(beta <= tolerance * scale), draw, lambda: start)
        beta, v = _normalize(v, beta, tolerance * scale, default)
        return index + 1, basis, images, u, v, beta, scale

    def zeros(*shape):
        return ops.zeros(shape, dtype)

    bases = zeros(batch, steps, columns), zeros(batch, steps, rows)
    state = (0, *bases, zeros(batch, rows), first, zeros(batch, 1), zeros(batch, 1))
    # XLA has no gradient of a loop with an unknown number of steps.
    final: Any = ops.while_loop(lambda *_: True, step, state, maximum_iterations=steps)
    return final[1:3]


# On PyTorch `ops.matmul` and `ops.maximum` convert float64 to float32; `einsum` and `where` do not.


def _maximum(a, b):
    return ops.where(a > b, a, b)


def _norm(vectors):
    """Returns the norms, `(batch, 1)`, from squares that neither overflow nor underflow."""
    largest = ops.max(ops.abs(vectors), axis=1, keepdims=True)
    unit = ops.where(largest > 0, largest, ops.ones_like(largest))
    return unit * ops.sqrt(ops.sum((vectors / unit) ** 2, axis=1, keepdims=True))


def _orthogonalize(vectors, basis):
    """Returns `vectors` minus their projection to the span of `basis`, `(batch, steps, size)`."""
    for _ in range(2):  # the second pass removes the rounding errors of the first
        coefficients = ops.einsum("bsn,bn->bs", basis, vectors)
        vectors = vectors - ops.einsum("bs,bsn->bn", coefficients, basis)
    return vectors


def _normalize(vectors, norm, threshold, default):
    """Returns `norm` and unit vectors, or 0 and `default` where `norm` is below the threshold."""
    is_valid = norm > threshold
    units = vectors / ops.where(is_valid, norm, ops.ones_like(norm))
    return ops.where(is_valid, norm, ops.zeros_like(norm)), ops.where(is_valid, units, default)
