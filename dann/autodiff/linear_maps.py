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
    return _flat(lambda u: pull([u])[0], outputs, inputs, working_dtype(inputs))


def forward_map(call: Callable, inputs: Any) -> Callable:
    """Returns the function from `v`, `(batch, inputs)`, to `J v`, `(batch, outputs)`."""
    outputs, push = running_engine().push_forward(call, [inputs])
    return _flat(lambda v: push([v])[0], inputs, outputs, working_dtype(inputs))


def _flat(product, taken, given, dtype):
    # Gradients of a loop of TensorFlow, as in an LSTM, do not know their shape.
    shape = given.shape[0], math.prod(given.shape[1:])

    def multiply(vectors):
        shaped = ops.cast(ops.reshape(vectors, taken.shape), taken.dtype)
        return ops.cast(ops.reshape(product(shaped), shape), dtype)

    return multiply
