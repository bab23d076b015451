"""Engines: the functions of derivatives that depend on the Keras backend.

`engine` is the module of the running backend. Each engine has `VARIABLES`, the types that count as
variables, and these functions:

- `tensor(value)` returns a value as a tensor of its own type.
- `has_value(tensor)` returns whether a tensor is not a symbol in a function that is being traced.
- `pull_back(function, xs)` returns the outputs and a `pull`, which maps a list of upstream
  gradients to the gradients with respect to `xs`. The gradients flow through
  the arguments and, for a variable, also through the reads of the variable in the function.
- `map_range(function, count, dtypes)` returns the stacked results of a function for the numbers
  below `count`, vectorized where possible. Results and types may be nested.
- `may_override(y, pull)` returns whether the function `pull` of upstream gradients may not be
  linear, because a function in the computation of `y` overrides its gradient.
- `has_loops(y)` returns whether second derivatives of `y` cannot be vectorized.
- `run(function, program, x, **static)` returns `program(call, x, **static)`, where `call` is the
  function or Keras model. It compiles the program where that is faster, for a model once.
"""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

if keras.backend.backend() == "tensorflow":
    from dann.autodiff import on_tensorflow as engine
elif keras.backend.backend() == "jax":
    from dann.autodiff import on_jax as engine
elif keras.backend.backend() == "torch":
    from dann.autodiff import on_torch as engine
else:
    raise NotImplementedError(
        "Expected the Keras backend 'tensorflow', 'jax' or 'torch' for derivatives. "
        f"Received: {keras.backend.backend()!r}"
    )


def push_forward(outputs: list, pull: Callable) -> Callable:
    """Returns the function from tangents of the arguments to tangents of the outputs.

    Args:
        outputs: Outputs of a function.
        pull: Function from upstream gradients to gradients of the arguments.
    """
    # Gradients are linear in the upstream gradients, so these may have any value, such as 0.
    upstream = [ops.zeros_like(y) for y in outputs]
    return engine.pull_back(lambda *upstream: pull(list(upstream)), upstream)[1]


def is_linear(x: Any, y: Any, pull: Callable) -> Any:
    """Returns whether `pull` is linear, as a derivative is and an override need not be.

    If a gradient is overridden, this is measured, up to rounding as in mixed precision:
    `pull(0)` is 0, and with the derivative `push` of `pull` at 0,

    - `sum(pull(u) * v) = sum(u * push(v))` for each example and random `u` and `v`, for `-u` and
      for `1000 u`

    Args:
        x: Inputs of a function, `(batch, ...)`.
        y: Outputs of the function, `(batch, ...)`.
        pull: Function from upstream gradients to gradients of the inputs.

    Returns:
        `True`, or a boolean tensor.
    """
    if not engine.may_override(y, pull):
        return True
    rng = np.random.default_rng(0)
    sizes = [(t.shape[0] or 1, *t.shape[1:]) for t in (y, x)]  # the batch size may be unknown
    numbers = [ops.convert_to_tensor(rng.normal(size=size), x.dtype) for size in sizes]
    # u has the shape of the outputs, v the shape of the inputs.
    u, v = (ops.broadcast_to(a, ops.shape(t)) for a, t in zip(numbers, (y, x), strict=True))
    dtype = keras.backend.result_type(x.dtype, "float32")

    def dot(a, b):
        products = (ops.cast(a, dtype) * ops.cast(b, dtype))[..., None]
        return ops.sum(products, axis=tuple(range(1, len(products.shape))))

    at_zero, push = engine.pull_back(lambda upstream: pull([upstream])[0], [ops.zeros_like(y)])
    pushed = push([v])[0]
    tolerance = 1e-3 if keras.backend.standardize_dtype(x.dtype) == dtype else 0.05

    def is_equal(u):  # (J^T u) v = u (J v) for each example
        pulled = pull([u])[0]
        product = dot(pulled, v)
        difference = ops.abs(product - dot(u, pushed))
        size = ops.sqrt(dot(pulled, pulled) * dot(v, v)) + ops.sqrt(dot(u, u) * dot(pushed, pushed))
        within = difference <= tolerance * size  # false if the derivative at 0 is NaN
        return ops.all(ops.logical_or(within, ops.logical_not(ops.isfinite(product))))

    # A guided pass drops one sign, a clipped pass changes only large gradients, and a constant in a
    # pass does not vanish at 0.
    vanishes = ops.all(ops.logical_or(at_zero == 0, ops.logical_not(ops.isfinite(at_zero))))
    return vanishes & is_equal(u) & is_equal(-u) & is_equal(1000 * u)


def unit_tensor(number: Any, shape: Any, dtype: Any) -> Any:
    """Returns a tensor of zeros with a single 1 at the flat index `number`."""
    return ops.reshape(ops.one_hot(number, math.prod(shape), dtype=dtype), shape)
