"""Checks of tensor arguments before they reach a tape or a transform."""

from collections.abc import Sequence
from typing import Any

import keras

from dann.autodiff.engines import engine
from dann.checks import shapes_may_match


def floating_tensor(value: Any, name: str) -> Any:
    """Returns a value as a tensor with respect to which a function can be differentiated.

    Raises:
        TypeError: If `value` is not one tensor, or not floating.
    """
    is_nested = isinstance(value, dict | list | tuple)
    try:
        if is_nested and any(isinstance(v, engine.VARIABLES) for v in keras.tree.flatten(value)):
            raise TypeError("JAX would stack the variables and lose their identity")
        tensor = engine.tensor(value)
    except (AttributeError, RuntimeError, TypeError, ValueError) as error:
        raise TypeError(
            f"Expected `{name}` to be one tensor, array or variable. "
            f"Received: {type(value).__name__}. For several tensors write "
            "`gradients(lambda a, b: model({'a': a, 'b': b}), [a, b])`"
        ) from error
    if not keras.backend.is_float_dtype(_dtype(tensor)):
        raise TypeError(
            f"Expected `{name}` to be floating, because gradients flow through no other type. "
            f"Received: dtype={_dtype(tensor)}"
        )
    return tensor


def floating_tensors(values: Sequence[Any], name: str) -> list[Any]:
    """Returns tensors and arrays as floating tensors, and variables unchanged.

    Raises:
        TypeError: If `values` is not a list or tuple, or an element is not floating.
    """
    _check_list(values, name)
    tensors = [floating_tensor(value, f"{name}[{index}]") for index, value in enumerate(values)]
    pairs = zip(values, tensors, strict=True)
    return [value if isinstance(value, engine.VARIABLES) else tensor for value, tensor in pairs]


def floating_outputs(outputs: Any) -> list[Any]:
    """Returns the outputs of a function as a list of floating tensors."""
    return floating_tensors(keras.tree.flatten(outputs), "function(*xs)")


def tensors_like(values: Sequence[Any], name: str, patterns: Sequence[Any]) -> list[Any]:
    """Returns `values` as tensors, one per pattern, in the shape and type of the pattern.

    With too few tensors the tape of TensorFlow crashes; with a wrong shape it returns wrong values.

    Raises:
        TypeError: If `values` is not a list or tuple.
        ValueError: If the number of tensors, a shape or a type is wrong.
    """
    _check_list(values, name)
    tensors = [engine.tensor(value) for value in values]
    received = [(tuple(tensor.shape), _dtype(tensor)) for tensor in tensors]
    expected = [(tuple(pattern.shape), _dtype(pattern)) for pattern in patterns]
    if len(received) != len(expected) or not all(map(_may_match, received, expected)):
        raise ValueError(
            f"Expected `{name}` to contain tensors of these shapes and types: {expected}. "
            f"Received: {received}"
        )
    return tensors


def _check_list(values, name):
    if not isinstance(values, list | tuple):  # an array would count as a list of its rows
        raise TypeError(
            f"Expected `{name}` to be a list of tensors, also for a single tensor: `[x]`. "
            f"Received: {type(values).__name__}"
        )


def _dtype(tensor):
    return keras.backend.standardize_dtype(tensor.dtype)


def _may_match(received, expected):
    return shapes_may_match(received[0], expected[0]) and received[1] == expected[1]
