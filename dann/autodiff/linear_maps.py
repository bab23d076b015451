"""The Jacobians of a function of a batch, at inputs `(batch, ...)`, as maps of flat vectors."""

import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from dann.autodiff.engines import running_engine


def working_dtype(inputs: Any) -> str:
    """Returns the type of the vectors: that of the inputs, but at least float32."""
    dtype = keras.backend.standardize_dtype(inputs.dtype)
    return "float64" if dtype == "float64" else "float32"


def transposed_map(call: Callable, inputs: Any) -> Callable:
    """Returns the function from `u`, `(batch, outputs)`, to `J^T u`, `(batch, inputs)`."""
    outputs, pull = running_engine().pull_back(call, [inputs])
    return _flat(lambda u: pull([u])[0], outputs, working_dtype(inputs))


def forward_map(call: Callable, inputs: Any) -> Callable:
    """Returns the function from `v`, `(batch, inputs)`, to `J v`, `(batch, outputs)`."""
    _, push = running_engine().push_forward(call, [inputs])
    return _flat(lambda v: push([v])[0], inputs, working_dtype(inputs))


def _flat(product, pattern, dtype):
    def multiply(vectors):
        shaped = ops.cast(ops.reshape(vectors, pattern.shape), pattern.dtype)
        result = product(shaped)
        flat = ops.reshape(result, (result.shape[0], math.prod(result.shape[1:])))
        return ops.cast(flat, dtype)

    return multiply
