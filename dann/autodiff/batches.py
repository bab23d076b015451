"""Jacobians of the examples of a batch, and their norms."""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.autodiff.arguments import floating_tensor
from dann.autodiff.engines import engine, is_linear, push_forward, unit_tensor
from dann.autodiff.functions import substitute_values
from dann.checks import check_integer


def batch_jacobian(function: Callable[[Any], Any], inputs: Any) -> Any:
    """Returns the Jacobian of the output of each example with respect to its own input.

    - `values[b, i, j] = df_i(x_b)/dx_bj`, with multi-indices `i` and `j`

    The result contains the diagonal blocks of `jacobian`. They are computed by backward passes,
    vectorized over several outputs at a time. If an example has more than four times as many
    outputs as inputs, they are computed by the products of `jvp`, vectorized over the inputs,
    unless the function detects that an overridden gradient is not linear in the upstream gradient,
    such as a clipped gradient. The result can be differentiated.

    On TensorFlow and JAX, a Keras model is compiled once per shape, and again after its layers or
    variables change. Other changes to a model, such as a new `activation` of a layer, are not
    detected; after such a change, pass `lambda x: model(x, training=False)`. A plain function is
    traced at each call; to trace it once, call `batch_jacobian` in your own `tf.function` or
    `jax.jit`.

    Args:
        function: Function of a batch of inputs that returns a batch of outputs, `(batch, ...)`,
            each of which depends on its own input alone; or a Keras model, which is called with
            `training=False`.
        inputs: Floating-point tensor or array, `(batch, ...)`.

    Returns:
        A tensor `(batch, *output, *input)`.

    Raises:
        NotImplementedError: On a Keras backend other than TensorFlow, JAX and torch.
        TypeError: If inputs or outputs are not floating.
        ValueError: If a plain function does not return one output per example, or if its outputs
            depend on other examples, as with batch statistics, or differ between two calls, as with
            dropout in training. Inside a compiled function this is not checked.

    Example:

    >>> import keras
    >>> from dann.autodiff import batch_jacobian
    >>> weights = keras.ops.convert_to_tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> result = batch_jacobian(lambda x: keras.ops.matmul(x, weights), [[0.0, 0.0, 0.0]])
    >>> [[float(value) for value in row] for row in result[0]]
    [[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]]
    """
    return engine.run(function, _jacobian_program, check_batch(function, inputs))


def _jacobian_program(call, x):
    y, pull = pull_back_examples(call, x)

    def multiply_units(product, tangents, products, axis):
        sizes = tangents.shape[1:]

        def row(number):
            seed = unit_tensor(number, sizes, tangents.dtype)
            return product([ops.broadcast_to(seed, ops.shape(tangents))])[0]

        rows = engine.map_range(row, math.prod(sizes), products.dtype)  # (rows, batch, ...)
        shape = (y.shape[0] or -1, *y.shape[1:], *x.shape[1:])
        return ops.reshape(ops.moveaxis(rows, 0, axis), shape)

    def pull_units():
        return multiply_units(pull, y, x, 1)

    def push_units():
        return multiply_units(push_forward([y], pull), x, y, -1)

    # A forward product takes two backward passes.
    if 4 * math.prod(x.shape[1:]) >= math.prod(y.shape[1:]) or engine.has_loops(y):
        return pull_units()
    linear = is_linear(x, y, pull)
    return push_units() if linear is True else ops.cond(linear, push_units, pull_units)


def frobenius_norm(
    function: Callable[[Any], Any], inputs: Any, samples: int = 16, seed: int = 0
) -> tuple[Any, Any]:
    """Returns an estimate of `||J||_F` for the Jacobian of each example, and its standard error.

    Hutchinson's estimator: for vectors `e` of independent signs, `E ||J^T e||^2 = ||J||_F^2`. Each
    sample takes a backward pass. The mean of the squares is unbiased. Its root and, to first order,
    the standard error of the root are

    - `norm = sqrt(mean_s ||J^T e_s||^2)`
    - `error = std_s(||J^T e_s||^2) / (2 norm sqrt(samples))`

    Args:
        function: Function of a batch of inputs that returns a batch of outputs, each of which
            depends on its own input alone; or a Keras model, called with `training=False`.
        inputs: Floating-point tensor or array, `(batch, ...)`.
        samples: Number of random vectors, at least 2. Defaults to `16`.
        seed: Seed of the random vectors. Defaults to `0`.

    Returns:
        Norm and standard error, tensors `(batch,)` of the type of `inputs` but at least float32.
        The norm can be differentiated, so it can be part of a loss.

    Raises:
        TypeError: If inputs or outputs are not floating.
        ValueError: If `samples` is less than 2; if outputs depend on other examples or differ
            between two calls; if an overridden gradient is not linear in the upstream gradient
            (on JAX, an added constant is not detected). In a compiled function the norm is then
            NaN.

    Example:

    >>> import keras
    >>> from dann.autodiff import frobenius_norm
    >>> scales = keras.ops.convert_to_tensor([3.0, -4.0])
    >>> norm, error = frobenius_norm(lambda x: x * scales, [[0.0, 0.0]])
    >>> round(float(norm[0]), 3), round(float(error[0]), 3)
    (5.0, 0.0)

    Reference:
        - [Hutchinson, 1990](https://doi.org/10.1080/03610919008812866), proposition 1.
        - [Hoffman et al., 2019](https://arxiv.org/abs/1908.02729), section 2.3, for Jacobians.
    """
    check_integer("samples", samples, 2, hint="because the error is computed from their variance")
    x = check_batch(function, inputs)
    # (samples, batch)
    squares, linear = engine.run(function, _squares_program, x, samples=samples, seed=seed)
    squares = require_linear(squares, linear)
    mean = ops.mean(squares, axis=0)
    positive = mean > 0
    # The inner `where` keeps the infinite slope of the root at 0 out of the gradient.
    norm = ops.where(positive, ops.sqrt(ops.where(positive, mean, ops.ones_like(mean))), 0.0 * mean)
    standard_error = ops.std(squares, axis=0) / math.sqrt(samples - 1)
    divisor = 2 * ops.where(positive, norm, ops.ones_like(norm))
    error = ops.where(positive, standard_error / divisor, 0.0 * norm)
    return norm, ops.stop_gradient(error)


def _squares_program(call, x, samples, seed):
    y, pull = pull_back_examples(call, x)
    multiply_transposed = as_vector_product(pull, y, x)
    dtype = keras.backend.result_type(x.dtype, "float32")
    # If the batch size is unknown during tracing, all examples share their vectors.
    size = samples, x.shape[0] or 1, math.prod(y.shape[1:])
    signs = 2 * np.random.default_rng(seed).integers(0, 2, size) - 1

    def square(signs):
        vectors = ops.broadcast_to(signs, (ops.shape(x)[0], size[-1]))
        return ops.sum(multiply_transposed(vectors) ** 2, axis=1)

    return ops.map(square, ops.convert_to_tensor(signs, dtype)), is_linear(x, y, pull)


def require_linear(values: Any, linear: Any) -> Any:
    """Returns `values`, or NaN in a compiled function, if a backward pass is not linear.

    Raises:
        ValueError: If it is not linear and the function is not being compiled.
    """
    if linear is True:
        return values
    if not engine.has_value(linear):
        return ops.where(linear, values, ops.full_like(values, float("nan")))
    if not linear:
        raise ValueError(
            "Expected a backward pass that is linear in the upstream gradient, because only then "
            "it multiplies by a matrix. Received: an overridden gradient that is not linear, such "
            "as a clipped one. Use `batch_jacobian`"
        )
    return values


def check_batch(function: Any, inputs: Any) -> Any:
    """Returns a batch of inputs as a tensor, after a check that examples are independent.

    Otherwise the Jacobians of the examples would be silently wrong. The outputs of a random half of
    the examples must not change when the inputs of the other half change, and vice versa. A Keras
    model is not checked, because it runs in inference; nor is a single example, or a symbol in a
    function that is being compiled.

    Raises:
        TypeError: If inputs or outputs are not floating.
        ValueError: If outputs depend on other examples, as with batch statistics, or differ between
            two calls, as with dropout in training.
    """
    is_model = isinstance(function, keras.Model)
    if is_model and len(getattr(function, "inputs", None) or ()) > 1:
        raise TypeError(
            f"Expected a model with one input. Received: {len(function.inputs)} inputs. Write "
            "`batch_jacobian(lambda a: model([a, b]), a)`"
        )
    x = floating_tensor(inputs, "inputs")
    if not is_model and engine.has_value(x) and x.shape[0] > 1:
        with substitute_values([]):  # discards new states of layers and seed generators
            _check_independence(function, x)
    return x


def _check_independence(function, x):
    outputs = function(x)
    half = np.random.default_rng(0).permutation(x.shape[0]) % 2 == 0
    for is_fixed in (half, ~half):
        mask = is_fixed.reshape(-1, *[1] * (len(x.shape) - 1))
        changed_outputs = function(ops.where(mask, x, 2 * x + 1))
        if not engine.has_value(changed_outputs):
            return
        before = np.asarray(ops.convert_to_numpy(outputs), "float64")
        after = np.asarray(ops.convert_to_numpy(changed_outputs), "float64")
        has_batch = before.shape[:1] == is_fixed.shape
        if not has_batch or np.abs(after - before)[is_fixed].max() > 1e-5 * np.abs(before).max():
            raise ValueError(
                "Expected `function` to treat the examples of a batch one by one and to return the "
                "same outputs twice. Received: outputs of shape "
                f"{before.shape} that change with other examples or between calls, or are not one "
                "per example. Call layers such as BatchNormalization and Dropout with "
                "`training=False`, or use `jacobian`"
            )


def pull_back_examples(call: Callable, x: Any) -> tuple[Any, Callable]:
    """Returns the outputs of a batch, and the function from a list of `u` to a list of `J^T u`."""
    return engine.pull_back(lambda x: floating_tensor(call(x), "function(inputs)"), [x])


def as_vector_product(product: Callable, operand: Any, result: Any) -> Callable:
    """Returns a product of tensors like `operand` as a product of vectors `(batch, size)`."""
    # Gradients of a loop of TensorFlow, as in an LSTM, do not know their shape.
    flat_shape = result.shape[0] or -1, math.prod(result.shape[1:])

    def multiply(vectors):
        tensors = ops.reshape(vectors, (operand.shape[0] or -1, *operand.shape[1:]))
        products = product([ops.cast(tensors, operand.dtype)])[0]
        return ops.cast(ops.reshape(products, flat_shape), vectors.dtype)

    return multiply
