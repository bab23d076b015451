"""The Jacobian of each example of a batch, and its norm."""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.autodiff.arguments import floating_tensor
from dann.autodiff.engines import engine, push_forward, unit
from dann.autodiff.functions import reading_as
from dann.checks import check_integer


def batch_jacobian(function: Callable[[Any], Any], inputs: Any) -> Any:
    """Returns the Jacobian of each example's output with respect to its own input.

    - `values[b, i, j] = df_i(x_b)/dx_bj`, with multi-indices `i` and `j`

    These are the diagonal blocks of `jacobian`, by backward passes that are vectorized over some
    outputs at a time; or, if an example has more than four times as many outputs as inputs, by
    products as in `jvp` that are vectorized over its inputs. The result can be differentiated.

    On TensorFlow and JAX a Keras model is compiled once for each shape, and again after its layers
    or variables changed. Other changes to a model, such as a new `activation` of a layer, go
    unnoticed; for those pass `lambda x: model(x, training=False)`. A plain function is traced at
    each call; to trace it once, call `batch_jacobian` in a `tf.function` or `jax.jit` of your own.

    Args:
        function: Takes a batch of inputs and returns a batch of outputs, `(batch, ...)`, each of
            which depends on its own input alone. Or a Keras model; it is called with
            `training=False`.
        inputs: Floating-point tensor or array, `(batch, ...)`.

    Returns:
        A tensor `(batch, *output, *input)`.

    Raises:
        NotImplementedError: On a Keras backend other than TensorFlow, JAX and torch.
        TypeError: If inputs or outputs are not floating.
        ValueError: If a plain function gives no output for each example, or its outputs depend on
            other examples, as with batch statistics, or differ between two calls, as with dropout
            in training. In a compiled function that goes unnoticed.

    Example:

    >>> import keras
    >>> from dann.autodiff import batch_jacobian
    >>> weights = keras.ops.convert_to_tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> result = batch_jacobian(lambda x: keras.ops.matmul(x, weights), [[0.0, 0.0, 0.0]])
    >>> [[float(value) for value in row] for row in result[0]]
    [[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]]
    """
    return engine.run(function, _program, independent_batch(function, inputs))


def _program(call, x):
    y, product = pull_back_examples(call, x)
    given, found, axis = y, x, 1
    if 4 * math.prod(x.shape[1:]) < math.prod(y.shape[1:]) and not engine.has_loops(y):
        given, found, axis = x, y, -1
        product = push_forward([y], product)
    sizes = given.shape[1:]

    def row(number):
        seed = unit(number, sizes, given.dtype)
        return product([ops.broadcast_to(seed, ops.shape(given))])[0]

    rows = engine.mapped(row, math.prod(sizes), found.dtype)
    return ops.reshape(ops.moveaxis(rows, 0, axis), (y.shape[0] or -1, *y.shape[1:], *x.shape[1:]))


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
    x = independent_batch(function, inputs)
    squares = engine.run(function, _squares, x, samples=samples, seed=seed)  # (samples, batch)
    mean = ops.mean(squares, axis=0)
    some = mean > 0
    norm = ops.where(some, ops.sqrt(ops.where(some, mean, ops.ones_like(mean))), 0.0 * mean)
    spread = ops.std(squares, axis=0) / math.sqrt(samples - 1)
    error = ops.where(some, spread / (2 * ops.where(some, norm, ops.ones_like(norm))), 0.0 * norm)
    return norm, ops.stop_gradient(error)


def _squares(call, x, samples, seed):
    y, pull = pull_back_examples(call, x)
    multiply_transposed = of_vectors(pull, y, x)
    dtype = keras.backend.result_type(x.dtype, "float32")
    # While a batch of unknown size is traced, all examples share their vectors.
    size = samples, x.shape[0] or 1, math.prod(y.shape[1:])
    signs = 2 * np.random.default_rng(seed).integers(0, 2, size) - 1

    def square(signs):
        vectors = ops.broadcast_to(signs, (ops.shape(x)[0], size[-1]))
        return ops.sum(multiply_transposed(vectors) ** 2, axis=1)

    return ops.map(square, ops.convert_to_tensor(signs, dtype))


def independent_batch(function: Any, inputs: Any) -> Any:
    """Returns a batch of inputs as a tensor, after a check that examples do not depend on others.

    Their Jacobians would be wrong in silence. The outputs of a random half of the examples must
    stay as they are when the others change, and so must those of the other half. A Keras model is
    not checked, because it runs in inference; nor is a single example, or a symbol in a function
    that is being compiled.

    Raises:
        TypeError: If inputs or outputs are not floating.
        ValueError: If outputs depend on other examples, as with batch statistics, or differ between
            two calls, as with dropout in training.
    """
    model = isinstance(function, keras.Model)
    if model and len(getattr(function, "inputs", None) or ()) > 1:
        raise TypeError(
            "Jacobians of a batch are by one tensor; of a model with several inputs write "
            "`batch_jacobian(lambda a: model([a, b]), a)`. Received: a model with "
            f"{len(function.inputs)} inputs"
        )
    x = floating_tensor(inputs, "inputs")
    if not model and engine.has_value(x) and x.shape[0] > 1:
        with reading_as([]):  # a layer's seed advances in it, and no state is kept
            _check_independence(function, x)
    return x


def _check_independence(function, x):
    outputs = function(x)
    half = np.random.default_rng(0).permutation(x.shape[0]) % 2 == 0
    for kept in (half, ~half):
        here = kept.reshape(-1, *[1] * (len(x.shape) - 1))
        changed = function(ops.where(here, x, 2 * x + 1))
        if not engine.has_value(changed):
            return
        before, after = (np.asarray(ops.convert_to_numpy(y), "float64") for y in (outputs, changed))
        whole = before.shape[:1] == kept.shape
        if not whole or np.abs(after - before)[kept].max() > 1e-5 * np.abs(before).max():
            raise ValueError(
                "Argument `function` must treat the examples of a batch one by one and give the "
                "same outputs twice. Call layers such as BatchNormalization and Dropout with "
                "`training=False`, or use `jacobian`. Received: outputs that change with the other "
                f"examples or from call to call, or are not one for each; shape {before.shape}"
            )


def pull_back_examples(call: Callable, x: Any) -> tuple[Any, Callable]:
    """Returns the outputs of a batch, and the function from a list of `u` to one of `J^T u`."""
    return engine.pull_back(lambda x: floating_tensor(call(x), "function(inputs)"), [x])


def of_vectors(product: Callable, taken: Any, given: Any) -> Callable:
    """Returns a product with tensors like `taken` as one of vectors `(batch, size)`."""
    # Gradients of a loop of TensorFlow, as in an LSTM, do not know their shape.
    flat = given.shape[0] or -1, math.prod(given.shape[1:])

    def multiply(vectors):
        shaped = ops.reshape(vectors, (taken.shape[0] or -1, *taken.shape[1:]))
        found = product([ops.cast(shaped, taken.dtype)])[0]
        return ops.cast(ops.reshape(found, flat), vectors.dtype)

    return multiply
