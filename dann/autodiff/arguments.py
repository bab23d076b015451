"""Tensors as arguments, checked before a tape or a transform sees them.

Each check gets the argument's name for its messages.
"""

from collections.abc import Sequence
from typing import Any

import keras

from dann.autodiff.engines import running_engine


def floating_tensors(values: Any, name: str) -> list[Any]:
    """Returns tensors or arrays, in a list or tuple, as tensors to differentiate with respect to.

    Raises:
        TypeError: If `values` is not a list or tuple, or one of them is not floating.
        ValueError: If it is empty.
    """
    if not isinstance(values, list | tuple):
        raise TypeError(
            f"Argument `{name}` must be a list of tensors, also for a single one: `[x]`. "
            f"Received: {type(values).__name__}"
        )
    if not values:
        raise ValueError(f"Argument `{name}` must hold at least one tensor. Received: {values!r}")
    return [floating_tensor(value, f"{name}[{index}]") for index, value in enumerate(values)]


def floating_tensor(value: Any, name: str) -> Any:
    """Returns one value as a tensor to differentiate by.

    Raises:
        TypeError: If it is not floating, or holds several tensors.
    """
    if value is None:
        raise TypeError(
            f"`{name}` must be a tensor; write zeros to leave it out, ones for a plain sum. "
            "Received: None"
        )
    if _holds_tensors(value):
        raise TypeError(
            f"`{name}` must be one tensor. Where a model takes several, give a function of the one "
            "to differentiate by, such as `lambda x: model([x, other])`. Received: a "
            f"{type(value).__name__} of {len(value)}"
        )
    tensor = running_engine().tensor(value)
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    if not keras.backend.is_float_dtype(dtype):
        raise TypeError(
            f"`{name}` must be floating, because gradients flow through no other type; use "
            f'`keras.ops.cast(x, "float32")`. Received: dtype={dtype}'
        )
    return tensor


def _holds_tensors(value):
    """Whether it holds tensors or arrays; a list of numbers, however nested, is one tensor."""
    if isinstance(value, list | tuple):
        return any(getattr(part, "shape", ()) for part in value)
    return isinstance(value, dict)


def tensors_like(values: Any, name: str, patterns: Sequence[Any], pattern_name: str) -> list[Any]:
    """Returns `values` as tensors, one for each pattern, in its shape and type.

    With too few of them TensorFlow's tape crashes; with a wrong shape it gives a wrong answer.

    Messages call the patterns `pattern_name`.

    Raises:
        TypeError: If `values` is not a list or tuple, or one is `None` or has another type.
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
                f"`{name}[{index}]` must have the shape {tuple(pattern.shape)} of number "
                f"{index} of the {pattern_name}. Received: shape={tuple(tensor.shape)}"
            )
        dtypes = [keras.backend.standardize_dtype(value.dtype) for value in (tensor, pattern)]
        if dtypes[0] != dtypes[1]:
            raise TypeError(
                f"`{name}[{index}]` must have the dtype {dtypes[1]} of number {index} of the "
                f"{pattern_name}. Received: dtype={dtypes[0]}"
            )
    return tensors


def _same_shape(shape, pattern):
    if getattr(shape, "rank", 0) is None or getattr(pattern, "rank", 0) is None:
        return True  # TensorFlow may not know it while it traces
    sizes = list(zip(shape, pattern, strict=False))
    return len(shape) == len(pattern) and all(a == b or None in (a, b) for a, b in sizes)
