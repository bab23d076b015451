"""Tensors as arguments, checked before a tape or a transform sees them."""

from collections.abc import Sequence
from typing import Any

import keras

from dann.autodiff.engines import engine
from dann.checks import shapes_may_match


def floating_tensor(value: Any, name: str) -> Any:
    """Returns one value as a tensor to differentiate by.

    Raises:
        TypeError: If it is not one tensor, or not floating.
    """
    nested = isinstance(value, dict | list | tuple)
    try:
        if nested and any(isinstance(v, engine.VARIABLES) for v in keras.tree.flatten(value)):
            raise TypeError("JAX would stack them, and lose the variables")
        tensor = engine.tensor(value)
    except (AttributeError, RuntimeError, TypeError, ValueError) as error:
        raise TypeError(
            f"`{name}` must be one tensor, array or variable; of a list or dict of them write "
            "`gradients(lambda a, b: model({'a': a, 'b': b}), [a, b])`. "
            f"Received: {type(value).__name__}"
        ) from error
    if not keras.backend.is_float_dtype(_dtype(tensor)):
        raise TypeError(
            f"`{name}` must be floating, because gradients flow through no other type. "
            f"Received: dtype={_dtype(tensor)}"
        )
    return tensor


def floating_tensors(values: Sequence[Any], name: str) -> list[Any]:
    """Returns tensors, arrays or variables as floating tensors; variables stay what they are.

    Raises:
        TypeError: If they are no list or tuple, or one is not floating.
    """
    _check_list(values, name)
    tensors = [floating_tensor(value, f"{name}[{index}]") for index, value in enumerate(values)]
    pairs = zip(values, tensors, strict=True)
    return [value if isinstance(value, engine.VARIABLES) else tensor for value, tensor in pairs]


def floating_outputs(outputs: Any) -> list[Any]:
    """Returns a function's outputs as a list of floating tensors."""
    return floating_tensors(keras.tree.flatten(outputs), "function(*xs)")


def tensors_like(values: Sequence[Any], name: str, patterns: Sequence[Any]) -> list[Any]:
    """Returns `values` as tensors, one for each pattern, in its shape and type.

    With too few of them TensorFlow's tape crashes; with a wrong shape it gives a wrong answer.

    Raises:
        TypeError: If they are no list or tuple.
        ValueError: If their number, or the shape or type of one, is wrong.
    """
    _check_list(values, name)
    tensors = [engine.tensor(value) for value in values]
    given, wanted = ([(tuple(x.shape), _dtype(x)) for x in each] for each in (tensors, patterns))
    if len(given) != len(wanted) or not all(map(_fits, given, wanted)):
        raise ValueError(
            f"Argument `{name}` must hold tensors of these shapes and types: {wanted}. "
            f"Received: {given}"
        )
    return tensors


def _check_list(values, name):
    if not isinstance(values, list | tuple):  # an array would be taken for a list of its rows
        raise TypeError(
            f"`{name}` must be a list of tensors, also for a single one: `[x]`. "
            f"Received: {type(values).__name__}"
        )


def _dtype(tensor):
    return keras.backend.standardize_dtype(tensor.dtype)


def _fits(given, wanted):
    return shapes_may_match(given[0], wanted[0]) and given[1] == wanted[1]
