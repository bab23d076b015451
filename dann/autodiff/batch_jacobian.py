"""The Jacobian of each example of a batch."""

import math
from collections.abc import Callable
from typing import Any

from keras import ops

from dann.autodiff.batches import independent_batch, pull_back_examples
from dann.autodiff.engines import engine, push_forward, unit


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
        ValueError: If there is no output for each example, or a plain function's outputs depend on
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
