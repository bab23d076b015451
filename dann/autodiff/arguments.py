"""What the functions of this room accept, checked before a tape or a transform sees it."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import keras

from dann.autodiff.engines import running_engine

_POSITIONAL = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD


def as_function(function: Any) -> Callable:
    """Returns `function`; of a Keras model, its call in inference.

    Several tensors reach a model as the nest of its own inputs, in the order of `model.inputs`; one
    without `inputs` as its `call` takes them: each as an argument, or all as a list.

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
    """A functional model takes its inputs as one nest, a class of one's own as its `call` says."""
    if len(inputs) == 1:
        return inputs
    if len(getattr(model, "inputs", None) or []) == len(inputs):
        return (keras.tree.pack_sequence_as(model.input, list(inputs)),)
    parameters = inspect.signature(model.call).parameters.values()
    needed = [p for p in parameters if p.default is p.empty and p.kind in _POSITIONAL]
    return inputs if len(needed) > 1 else (list(inputs),)


def as_pure_function(function: Any) -> Callable:
    """Returns what `as_function` does, kept from changing the state of layers.

    It must not be called where values of variables are being traced, as in Keras' `fit` on JAX.
    """
    call = as_function(function)

    def pure(*inputs):
        with keras.StatelessScope():
            return call(*inputs)

    return pure


def floating_tensors(values: Any, name: str) -> list[Any]:
    """Returns a list of values as tensors that a derivative can be taken by.

    Args:
        values: List or tuple of tensors or arrays.
        name: Name of the argument, for messages.

    Raises:
        TypeError: If `values` is no list or tuple, or one of them is not floating.
        ValueError: If it is empty.
    """
    if not isinstance(values, list | tuple):
        raise TypeError(
            f"Argument `{name}` must be a list of tensors, also if there is but one: `[x]`. "
            f"Received: {type(values).__name__}"
        )
    if not values:
        raise ValueError(f"Argument `{name}` must hold at least one tensor. Received: {values!r}")
    return [floating_tensor(value, f"{name}[{index}]") for index, value in enumerate(values)]


def floating_tensor(value: Any, name: str) -> Any:
    """Returns one value as a tensor that a derivative can be taken by.

    Raises:
        TypeError: If it is not floating.
    """
    if value is None:
        raise TypeError(
            f"`{name}` must be a tensor; for what plays no part write zeros, for a plain sum ones. "
            "Received: None"
        )
    tensor = running_engine().tensor(value)
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    if not keras.backend.is_float_dtype(dtype):
        raise TypeError(
            f"`{name}` must be floating, because no gradient flows through other types; use "
            f'`keras.ops.cast(x, "float32")`. Received: dtype={dtype}'
        )
    return tensor


def tensors_like(values: Any, name: str, patterns: Sequence[Any], pattern_name: str) -> list[Any]:
    """Returns `values` as tensors, one for each pattern, in its shape and type.

    Too few of them crash TensorFlow's tape, and with a wrong shape it gives a wrong answer.

    Args:
        values: List or tuple of tensors or arrays.
        name: Name of the argument, for messages.
        patterns: Tensors.
        pattern_name: What the patterns are, for messages.

    Raises:
        TypeError: If `values` is no list or tuple, or one is `None` or of another type.
        ValueError: If their number or the shape of one is wrong.
    """
    if isinstance(values, list | tuple) and len(values) != len(patterns):
        raise ValueError(
            f"Argument `{name}` must hold one tensor for each of the {len(patterns)} "
            f"{pattern_name}. Received: {len(values)}"
        )
    tensors = floating_tensors(values, name)
    for index, (tensor, pattern) in enumerate(zip(tensors, patterns, strict=True)):
        if not _same_shape(tensor.shape, pattern.shape):
            raise ValueError(
                f"`{name}[{index}]` must have the shape {tuple(pattern.shape)} of what it belongs "
                f"to, number {index} of the {pattern_name}. Received: shape={tuple(tensor.shape)}"
            )
        dtypes = [keras.backend.standardize_dtype(value.dtype) for value in (tensor, pattern)]
        if dtypes[0] != dtypes[1]:
            raise TypeError(
                f"`{name}[{index}]` must have the dtype {dtypes[1]} of what it belongs to, number "
                f"{index} of the {pattern_name}. Received: dtype={dtypes[0]}"
            )
    return tensors


def _same_shape(shape, pattern):
    if getattr(shape, "rank", 0) is None or getattr(pattern, "rank", 0) is None:
        return True  # not known while TensorFlow traces
    sizes = list(zip(shape, pattern, strict=False))
    return len(shape) == len(pattern) and all(a == b or None in (a, b) for a, b in sizes)
