"""Makes arrays of what users give: lists, frames, tensors and sparse matrices."""

import numbers
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from dann.data.lazy_arrays import DenseRows

_NUMBERS = numbers.Real, np.bool_


def as_array(values: Any, domain: str) -> Any:
    """Returns an array, or an array-like whose rows can be read by index.

    Rows of a sparse matrix of SciPy are made dense as they are read.

    Args:
        values: An array, a list of numbers, a frame or a series, a tensor of any backend, a sparse
            matrix, or anything with `shape`, a NumPy `dtype` and rows that are read by index.
        domain: What messages call the domain.

    Raises:
        ValueError: If it is a single value, if values are masked, if rows have different lengths,
            or if the columns of a frame or the objects of an array are neither all numbers nor all
            texts.
    """
    if np.ma.is_masked(values):
        raise ValueError(
            f"The {domain} must hold numbers or texts, none of them missing; `.filled(value)` puts "
            "a value in place of masked ones. Received: a masked array"
        )
    if is_sparse(values):
        return DenseRows(values)
    if hasattr(values, "to_numpy"):  # a frame or a series
        values = _numbers_of(values.to_numpy(), domain)
    values = in_memory(values, domain)
    if isinstance(getattr(values, "dtype", None), np.dtype) and hasattr(values, "shape"):
        array = values  # perhaps not in memory, so not converted
    else:
        try:
            array = np.asarray(values)
        except ValueError as error:
            raise _of_several_lengths(type(values).__name__, domain) from error
    if len(array.shape) == 0:
        raise ValueError(f"The {domain} must be given as arrays. Received: {type(values).__name__}")
    return _as_numbers(array, domain) if isinstance(array, np.ndarray) else array


def is_sparse(values: Any) -> bool:
    """Returns whether it is a sparse matrix or array of SciPy."""
    return hasattr(values, "tocsr") and hasattr(values, "nnz")


def _as_numbers(array, domain):
    """The array; numbers that are kept as Python objects get a type of NumPy."""
    if array.dtype != object or not array.size:
        return array
    if all(isinstance(one, _NUMBERS) for one in array.flat):
        return np.array(array.tolist())
    strange = [one for one in array.flat if not isinstance(one, (str, bytes, *_NUMBERS))]
    if strange:
        raise ValueError(
            f"The {domain} must hold numbers or texts, none of them missing. "
            f"Received: {strange[0]!r}"
        )
    return array


def in_memory(values: Any, domain: str) -> Any:
    """Returns a tensor, a sparse matrix and an array of arrays as an array, all else as it is.

    Raises:
        ValueError: If it is a ragged tensor, or an array of arrays of several shapes.
    """
    if is_sparse(values):
        return values.toarray()
    of_objects = isinstance(values, np.ndarray) and values.dtype == object and values.size
    if of_objects and isinstance(values.flat[0], np.ndarray):  # such as a frame's column of rows
        return _stacked(values, domain)
    if hasattr(values, "row_splits"):
        raise _of_several_lengths(type(values).__name__, domain)  # Keras would add zeros
    if hasattr(values, "detach"):
        return _of_torch(values, domain)
    return keras.ops.convert_to_numpy(values) if keras.ops.is_tensor(values) else values


def _of_torch(tensor, domain):
    """A tensor of torch as an array, which torch has only of some kinds of tensors."""
    if tensor.is_nested:
        raise _of_several_lengths("nested tensor", domain)
    dense = tensor.detach().cpu().to_dense()
    return (dense.float() if "bfloat16" in str(dense.dtype) else dense).numpy()


def _stacked(rows, domain):
    """The rows of an array of arrays, as one array."""
    if len({np.shape(row) for row in rows.flat}) > 1:
        raise _of_several_lengths(type(rows).__name__, domain)
    stacked = np.stack(list(rows.flat))
    return stacked.reshape(*rows.shape, *stacked.shape[1:])


def concatenated(parts: Sequence[Any], domain: str) -> Any:
    """Returns one nested structure of arrays with the rows of all parts, one after the other.

    Raises:
        ValueError: If rows have several lengths.
    """

    def join(*leaves):
        if len({leaf.shape[1:] for leaf in leaves}) > 1:
            raise _of_several_lengths("dataset", domain)
        return np.concatenate(leaves)

    return keras.tree.map_structure(join, *parts)


def _of_several_lengths(kind, domain):
    return ValueError(
        f"The {domain} must be given as arrays, with rows of one length; "
        "`keras.utils.pad_sequences(rows)` fills up sequences, `tensor.to_tensor()` a ragged "
        f"tensor. Received: a {kind} of rows of several lengths"
    )


def _numbers_of(values, domain):
    """The values of a frame, as numbers where columns of several types made them objects."""
    kinds = {type(value) for value in values.flat} if values.dtype.kind == "O" else {str}
    if values.ndim < 2 or kinds <= {str, bytes}:
        return values
    try:
        return values.astype("float64")
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"A frame of the {domain} must hold numbers, none of them missing; "
            "`pandas.get_dummies(frame)` makes numbers of texts. Received: values of "
            f"{', '.join(sorted(kind.__name__ for kind in kinds))}"
        ) from error
