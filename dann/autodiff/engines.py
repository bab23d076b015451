"""The engine: what a Keras backend does its own way. `engine` is the module of the running one.

Each engine has `VARIABLES`, what counts as a variable, and these functions:

- `tensor(value)`: the value as a tensor of its own type.
- `has_value(tensor)`: whether it is no symbol in a function that is being traced.
- `pull_back(function, xs)`: the outputs, and the function from upstream gradients, a list, to the
  gradients by each of `xs`: what flows through the argument, and for a variable also through the
  function's own reading of it.
- `mapped(function, count, dtypes)`: the function's results for the numbers below `count`, stacked;
  vectorized where that is possible. They may be nested, and so are their types.
- `has_loops(y)`: whether derivatives of the derivatives of `y` cannot be vectorized.
- `run(function, program, x, **static)`: `program(call, x, **static)`, where `call` is the function
  or Keras model; compiled where that is faster, for a model once.
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
    raise NotImplementedError("Derivatives need the Keras backend 'tensorflow', 'jax' or 'torch'")


def push_forward(outputs: list, pull: Callable) -> Callable:
    """Returns the function from tangents to the outputs' tangents, given the one back.

    Two backward passes: the gradients are linear in the upstream ones, so any value of these does.
    """
    upstream = [ops.zeros_like(y) for y in outputs]
    return engine.pull_back(lambda *upstream: pull(list(upstream)), upstream)[1]


def unit(number: Any, shape: Any, dtype: Any) -> Any:
    """Returns a tensor of zeros with a single 1, at a place by its number."""
    return ops.reshape(ops.one_hot(number, math.prod(shape), dtype=dtype), shape)
