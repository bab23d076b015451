"""Lists of arrays, such as the gradients of several weights, taken as one vector."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np


def to_numpy(tensor: Any) -> np.ndarray:
    """Returns a tensor as an array in double precision."""
    return np.asarray(keras.ops.convert_to_numpy(keras.ops.cast(tensor, "float32")), "float64")


def norm(arrays: Sequence[np.ndarray]) -> float:
    """Returns the Euclidean norm of all numbers of a list of arrays."""
    return float(np.sqrt(sum(np.sum(np.square(x)) for x in arrays)))


def cosine(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> float:
    """Returns the cosine of the angle between two lists of arrays.

    It is 0 if one of them is all zeros, and NaN if one is not finite.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        product = sum(float(np.sum(x * y)) for x, y in zip(a, b, strict=True))
        size = norm(a) * norm(b)
    return product / size if size != 0 else 0.0


def length_ratio(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> float:
    """Returns `||a|| / ||b||`: 0 if `b` is all zeros, and NaN if one is not finite."""
    size = norm(b)
    return norm(a) / size if size != 0 else 0.0
