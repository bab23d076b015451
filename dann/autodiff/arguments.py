"""Tensors as arguments, checked before a tape or a transform sees them."""

from collections.abc import Sequence
from typing import Any

import keras

from dann.autodiff.engines import engine


def floating_tensor(value: Any, name: str) -> Any:
    """Returns one value as a tensor to differentiate by.

    Raises:
        TypeError: If it is not floating, or holds several tensors.
    """
    parts = value if isinstance(value, list | tuple) else ()
    if value is None or isinstance(value, dict) or any(hasattr(part, "shape") for part in parts):
        raise TypeError(f"`{name}` must be one tensor. Received: a {type(value).__name__}")
    tensor = engine.tensor(value)
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    if not keras.backend.is_float_dtype(dtype):
        raise TypeError(
            f"`{name}` must be floating, because gradients flow through no other type. "
            f"Received: dtype={dtype}"
        )
    return tensor


def floating_tensors(values: Any, name: str) -> list[Any]:
    """Returns a list of tensors, arrays or variables as tensors; variables stay what they are.

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
    tensors = [floating_tensor(value, f"{name}[{index}]") for index, value in enumerate(values)]
    pairs = zip(values, tensors, strict=True)
    return [value if isinstance(value, engine.VARIABLES) else tensor for value, tensor in pairs]


def tensors_like(values: Any, name: str, patterns: Sequence[Any]) -> list[Any]:
    """Returns `values` as tensors, one for each pattern, in its shape and type.

    With too few of them TensorFlow's tape crashes; with a wrong shape it gives a wrong answer.

    Raises:
        TypeError: If `values` is not a list or tuple, or one is `None` or has another type.
        ValueError: If their number or the shape of one is wrong.
    """
    if isinstance(values, list | tuple) and len(values) != len(patterns):
        raise ValueError(
            f"Argument `{name}` must hold {len(patterns)} tensors. Received: {len(values)}"
        )
    tensors = [engine.tensor(value) for value in floating_tensors(values, name)]
    for index, (tensor, pattern) in enumerate(zip(tensors, patterns, strict=True)):
        if not _same_shape(tensor.shape, pattern.shape):
            raise ValueError(
                f"`{name}[{index}]` must have the shape {tuple(pattern.shape)}. "
                f"Received: shape={tuple(tensor.shape)}"
            )
        dtype, wanted = (keras.backend.standardize_dtype(x.dtype) for x in (tensor, pattern))
        if dtype != wanted:
            raise TypeError(f"`{name}[{index}]` must have the dtype {wanted}. Received: {dtype}")
    return tensors


def floating_outputs(outputs: Any) -> list[Any]:
    """Returns a function's outputs as a list.

    Raises:
        TypeError: If there are none, or one is not floating.
    """
    leaves = keras.tree.flatten(outputs)
    if not leaves:
        raise TypeError(f"Argument `function` must return a tensor. Received: {outputs!r}")
    return [floating_tensor(y, f"function(*xs)[{i}]") for i, y in enumerate(leaves)]


def _same_shape(shape, pattern):
    if getattr(shape, "rank", 0) is None or getattr(pattern, "rank", 0) is None:
        return True  # TensorFlow may not know it while it traces
    sizes = list(zip(shape, pattern, strict=False))
    return len(shape) == len(pattern) and all(a == b or None in (a, b) for a, b in sizes)
