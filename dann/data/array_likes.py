"""Makes arrays of what users give: lists, frames and tensors."""

from typing import Any

import numpy as np


def as_array(values: Any, domain: str) -> Any:
    """Returns an array, or an array-like whose rows are read by index as it is.

    Args:
        values: Anything that `numpy.asarray` takes, such as a list of numbers, a pandas frame or a
            tensor; or anything with `len`, `shape` and a NumPy `dtype` that gives rows for an array
            of indices, such as a memory map or `dann.data.ImageFiles`.
        domain: What messages call the domain.

    Raises:
        ValueError: If it is a single value, holds NaN or infinite or masked numbers, rows have
            different lengths, or objects are neither all numbers nor all texts.
    """
    if isinstance(getattr(values, "dtype", None), np.dtype) and not hasattr(values, "__array__"):
        return values
    if np.ma.is_masked(values):
        raise ValueError(f"{_NONE_MISSING.format(domain)} Received: a masked array")
    try:
        array = values if isinstance(values, np.memmap) else np.asarray(values)
        if array.dtype == object and not all(isinstance(one, str | bytes) for one in array.flat):
            array = array.astype("float64")
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"The {domain} must hold numbers alone, in rows of one length; "
            "`pandas.get_dummies(frame)` makes numbers of texts, `numpy.stack(rows)` an array of "
            f"rows. Received: a {type(values).__name__}, of which {error}"
        ) from error
    if array.ndim == 0:
        raise ValueError(f"The {domain} must be given as arrays. Received: {type(values).__name__}")
    return array if isinstance(array, np.memmap) else check_finite(array, domain)


_NONE_MISSING = "The {} must hold finite numbers, none of them missing."


def check_finite(array: np.ndarray, domain: str) -> np.ndarray:
    """Returns an array; raises a `ValueError` if some of its numbers are NaN or infinite."""
    if array.dtype.kind != "f" or array.size == 0:
        return array
    # NaN and infinity reach the least or the largest number; this takes no memory.
    if not np.isfinite([array.min(), array.max()]).all():
        wrong = array.size - np.count_nonzero(np.isfinite(array))
        raise ValueError(
            f"{_NONE_MISSING.format(domain)} Received: {wrong} of {array.size} that are NaN or "
            f"infinite in {array.dtype}"
        )
    return array


def in_order_of(source: Any, other: Any, domain: str) -> Any:
    """Returns a frame with its columns in the order of the source's; all else as it is.

    Raises:
        ValueError: If one of two frames lacks columns of the other.
    """
    if not (hasattr(source, "columns") and hasattr(other, "columns")):
        return other
    mine, its = list(source.columns), list(other.columns)
    if mine == its:
        return other
    lacks = [name for name in mine if name not in its]
    others = [name for name in its if name not in mine]
    if lacks or others or len(mine) != len(its):
        raise ValueError(
            "Frames of both domains must have the same columns; encode them together, as "
            "`pandas.get_dummies(pandas.concat([source, target], keys=['source', 'target']))` "
            f"does. Received: a {domain} without {lacks}, a source without {others}"
        )
    return other[mine]
