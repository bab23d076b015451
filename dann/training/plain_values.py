"""Converts plain values, such as a callback's state, to JSON and arrays, and back unchanged."""

from typing import Any

import numpy as np


def is_plain(value: Any) -> bool:
    """Returns whether a value is a number, text, `None`, an array, or a container of these."""
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value) and is_plain(list(value.values()))
    if type(value) in (list, tuple):
        return all(map(is_plain, value))
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype.kind in "biufc"
    return value is None or type(value) in (bool, int, float, str)


def packed(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Returns a plain value in a form that JSON can hold, and adds its arrays to `arrays`."""
    if isinstance(value, dict):
        return {"dict": {key: packed(part, arrays) for key, part in value.items()}}
    if isinstance(value, tuple):
        return {"tuple": [packed(part, arrays) for part in value]}
    if isinstance(value, list):
        return [packed(part, arrays) for part in value]
    if isinstance(value, np.ndarray | np.generic):
        name = str(len(arrays))
        arrays[name] = np.array(value)
        return {"array": name}
    return value


def unpacked(found: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Returns the value that `packed` turned into JSON and arrays."""
    if isinstance(found, list):
        return [unpacked(part, arrays) for part in found]
    if not isinstance(found, dict):
        return found
    ((kind, content),) = found.items()
    if kind == "array":
        return arrays[content][()]  # a scalar where there are no axes
    if kind == "tuple":
        return tuple(unpacked(part, arrays) for part in content)
    return {key: unpacked(part, arrays) for key, part in content.items()}
