"""The Frobenius norm of each example's Jacobian, without the Jacobian."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from keras import ops

from dann.autodiff.engines import running_engine
from dann.autodiff.independence import check_independence
from dann.autodiff.linear_maps import transposed_map, working_dtype
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
    x, shape = check_independence(function, inputs)
    engine, dtype = running_engine(), working_dtype(x)
    signs = np.random.default_rng(seed).integers(0, 2, (samples, x.shape[0], math.prod(shape)))
    squares = engine.run(function, _squares, x, engine.tensor((2 * signs - 1).astype(dtype)))
    squares = np.asarray(squares, "float64")  # (samples, batch)
    norm = np.sqrt(squares.mean(axis=0))
    spread = squares.std(axis=0, ddof=1) / math.sqrt(samples)
    error = np.divide(spread, 2 * norm, out=np.zeros_like(norm), where=norm > 0)
    return engine.tensor(norm.astype(dtype)), engine.tensor(error.astype(dtype))


def _squares(call, x, signs):
    multiply_transposed = transposed_map(call, x)
    return ops.map(lambda vectors: ops.sum(multiply_transposed(vectors) ** 2, axis=1), signs)
