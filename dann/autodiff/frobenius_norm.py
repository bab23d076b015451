"""The Frobenius norm of each example's Jacobian, without the Jacobian."""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.autodiff import batches
from dann.autodiff.engines import engine
from dann.checks import check_integer


def frobenius_norm(
    function: Callable[[Any], Any], inputs: Any, samples: int = 16, seed: int = 0
) -> tuple[Any, Any]:
    """Returns an estimate of `||J||_F` of each example's Jacobian, and its standard error.

    Hutchinson's estimator: for vectors `e` of independent signs, `E ||J^T e||^2 = ||J||_F^2`. Each
    sample takes a backward pass. The mean of the squares is unbiased. Its root, and to first order
    the root's standard error, are

    - `norm = sqrt(mean_s ||J^T e_s||^2)`
    - `error = std_s(||J^T e_s||^2) / (2 norm sqrt(samples))`

    Args:
        samples: Number of random vectors, at least 2. Defaults to 16.
        seed: Seed of these vectors.

    The other arguments, and the errors, are those of `batch_jacobian`.

    Returns:
        Norm and standard error, tensors `(batch,)` of the type of `inputs` but at least float32.
        The norm can be differentiated, so it can be part of a loss.

    Example:

    >>> import keras
    >>> from dann.autodiff import frobenius_norm
    >>> scales = keras.ops.convert_to_tensor([3.0, -4.0])
    >>> norm, error = frobenius_norm(lambda x: x * scales, [[0.0, 0.0]])
    >>> round(float(norm[0]), 3), round(float(error[0]), 3)
    (5.0, 0.0)

    Reference:
        - [Hutchinson, 1990](https://doi.org/10.1080/03610919008812866), proposition 1.
        - [Hoffman et al., 2019](https://arxiv.org/abs/1908.02729), section 2.3, of Jacobians.
    """
    check_integer("samples", samples, 2, why="because their spread gives the error")
    x = batches.independent_batch(function, inputs)
    squares = engine.run(function, _squares, x, samples=samples, seed=seed)  # (samples, batch)
    mean = ops.mean(squares, axis=0)
    some = mean > 0
    norm = ops.where(some, ops.sqrt(ops.where(some, mean, ops.ones_like(mean))), 0.0 * mean)
    spread = ops.std(squares, axis=0) / math.sqrt(samples - 1)
    error = ops.where(some, spread / (2 * ops.where(some, norm, ops.ones_like(norm))), 0.0 * norm)
    return norm, ops.stop_gradient(error)


def _squares(call, x, samples, seed):
    y, pull = batches.pull_back_examples(call, x)
    multiply_transposed = batches.of_vectors(pull, y, x)
    dtype = keras.backend.result_type(x.dtype, "float32")
    # While a batch of unknown size is traced, all examples share their vectors.
    size = samples, x.shape[0] or 1, math.prod(y.shape[1:])
    signs = 2 * np.random.default_rng(seed).integers(0, 2, size) - 1
    of_examples = ops.ones_like(ops.reshape(x, (x.shape[0] or -1, math.prod(x.shape[1:])))[:, :1])

    def square(signs):
        vectors = signs * ops.cast(of_examples, dtype)
        return ops.sum(multiply_transposed(vectors) ** 2, axis=1)

    return ops.map(square, ops.convert_to_tensor(signs, dtype))
