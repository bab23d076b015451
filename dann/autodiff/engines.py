"""Engines: the parts of the derivatives that depend on the Keras backend.

`engine` is the module of the running backend. Each engine has `VARIABLES`, the types that count as
variables, and these functions:

- `tensor(value)` returns a value as a tensor of its own type.
- `has_value(tensor)` returns whether a tensor is not a symbol in a function that is being traced.
- `pull_back(function, xs)` returns the outputs, and the function from a list of upstream gradients
  to the gradients with respect to `xs`, which flow through the arguments and, for a variable, also
  through the reads of the variable in the function.
- `map_range(function, count, dtypes)` returns the stacked results of a function for the numbers
  below `count`, vectorized where possible. Results and types may be nested.
- `has_loops(y)` returns whether second derivatives of `y` cannot be vectorized.
- `run(function, program, x, **static)` returns `program(call, x, **static)`, where `call` is the
  function or Keras model. It compiles the program where that is faster, for a model once.
"""

import math
from collections.abc import Callable
from typing import Any

import keras
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


def unit_tensor(number: Any, shape: Any, dtype: Any) -> Any:
    """Returns a tensor of zeros with a single 1 at the flat index `number`."""
    return ops.reshape(ops.one_hot(number, math.prod(shape), dtype=dtype), shape)
