"""One way to call functions of tensors and Keras models."""

import inspect
from collections.abc import Callable
from typing import Any

import keras

_POSITIONAL = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD


def as_function(function: Any) -> Callable:
    """Returns `function`; for a Keras model, its call in inference.

    A functional model gets several tensors as the nest of its own inputs, in the order of
    `model.inputs`. Any other model gets them as its `call` takes them: one by one, or as a list.

    Raises:
        TypeError: If it cannot be called.
    """
    if isinstance(function, keras.Model):
        return lambda *inputs: function(*_arguments_of(function, inputs), training=False)
    if not callable(function):
        raise TypeError(
            "Argument `function` must be a function of tensors or a Keras model. "
            f"Received: {function!r} of type {type(function).__name__}"
        )
    return function


def _arguments_of(model, inputs):
    if len(inputs) == 1:
        return inputs
    if len(getattr(model, "inputs", None) or []) == len(inputs):
        return (keras.tree.pack_sequence_as(model.input, list(inputs)),)
    parameters = inspect.signature(model.call).parameters.values()
    needed = [p for p in parameters if p.default is p.empty and p.kind in _POSITIONAL]
    return inputs if len(needed) > 1 else (list(inputs),)


def as_pure_function(function: Any) -> Callable:
    """Returns `as_function(function)` as a function that does not change the state of layers.

    Do not call it where values of variables are being traced, as in Keras' `fit` on JAX.
    """
    call = as_function(function)

    def pure(*inputs):
        with keras.StatelessScope():
            return call(*inputs)

    return pure
