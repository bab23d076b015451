"""Conversion of inputs and labels to the forms that Keras accepts."""

from typing import Any

import keras
import numpy as np
import pandas


def as_array(values: Any, domain: str) -> Any:
    """Converts values to an array; array-likes that are read by index are returned unchanged.

    Args:
        values: Anything that `numpy.asarray` converts, such as a list of numbers, a pandas data
            frame or a tensor; or an array-like with `len`, `shape` and a NumPy `dtype` that returns
            rows for an array of indices, such as a memory map or `ImageFiles`.
        domain: Name of the domain in error messages.

    Raises:
        TypeError: If `values` is a dict, or a sparse matrix of SciPy.
        ValueError: If values are NaN, infinite, masked or complex, rows differ in length, or
            objects are neither all numbers nor all strings.
    """
    if isinstance(values, dict) or hasattr(values, "toarray"):
        raise TypeError(
            f"Expected the {domain} to be a single array. Received: {type(values).__name__}. "
            "Several inputs need `dann.data.pair`, which accepts dicts of arrays; a sparse matrix "
            "needs `.toarray()`"
        )
    if isinstance(getattr(values, "dtype", None), np.dtype) and not hasattr(values, "__array__"):
        return values
    reject_masked(values, domain)
    try:
        array = values if isinstance(values, np.memmap) else np.asarray(values)
    except ValueError as error:  # rows of different shapes, such as inputs and labels in a list
        raise ValueError(
            f"Expected the {domain} to be an array, or `(inputs, labels)` as a tuple of two "
            f"arrays. Received: {type(values).__name__} of length {len(values)}: {error}"
        ) from None
    if array.dtype.kind in "UST":  # Keras accepts strings only as objects
        return array.astype(object)
    if array.dtype == object and not all(isinstance(value, str | bytes) for value in array.flat):
        try:
            array = array.astype("float64")
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"Expected the {domain} to contain numbers without missing values; "
                "`pandas.get_dummies` and, for data frames, `dann.data.csv_table` encode "
                f"categories as numbers. Received: {error}"
            ) from None
    if array.dtype.kind in "cmM":  # Keras would drop imaginary parts
        raise ValueError(
            f"Expected the {domain} to contain real numbers. Received: {array.dtype}. Store real "
            "and imaginary parts in separate columns, and dates as numbers of days"
        )
    return array if isinstance(array, np.memmap) else check_finite(array, domain)


def reject_masked(values: Any, name: str) -> None:
    """Raises `ValueError` if elements of an array are masked; `np.asarray` ignores the mask."""
    if np.ma.is_masked(values):
        raise ValueError(
            f"Expected the {name} to have no missing values. Received: a masked array. Fill it; a "
            "missing label of the target is -1"
        )


def frames_to_arrays(values: Any) -> Any:
    """Returns a structure in which data frames and series are arrays."""
    return keras.tree.map_structure(
        lambda part: part.to_numpy() if hasattr(part, "to_numpy") else part, values
    )


def check_finite(array: np.ndarray, domain: str) -> np.ndarray:
    """Returns the array; raises `ValueError` if it contains NaN or infinite values."""
    if array.dtype.kind in "biuO" or array.size == 0:
        return array
    # NaN and infinity propagate to the minimum or the maximum, which need no extra memory.
    with np.errstate(invalid="ignore"):  # bfloat16 warns
        extremes = [array.min(), array.max()]
    if not np.isfinite(extremes).all():
        raise ValueError(
            f"Expected the {domain} to contain finite numbers without missing values. Received: "
            f"{np.count_nonzero(~np.isfinite(array))} of {array.size} values are NaN or infinite. "
            "Replace these values, or drop their examples"
        )
    return array


def reject_missing(values: Any, role: str) -> None:
    """Raises `ValueError` if values, one per example, contain NaN or `None`.

    Args:
        values: Array-like of numbers or strings, `(n,)`.
        role: Noun for a value in the error message, such as "domain".
    """
    # As objects, because strings would convert NaN to "nan".
    is_missing = pandas.isna(np.asarray(values, dtype=object))
    if count := np.count_nonzero(is_missing):
        raise ValueError(
            f"Expected the {role} of each example. Received: NaN or None for {count} of "
            f"{np.size(is_missing)} examples. Drop these examples"
        )


def has_strings(inputs: Any) -> bool:
    """Returns whether any of the inputs is an array of strings."""
    dtypes = [getattr(array, "dtype", None) for array in keras.tree.flatten(inputs)]
    return any(isinstance(dtype, np.dtype) and dtype.kind in "USTO" for dtype in dtypes)


def convert_strings(inputs: Any) -> Any:
    """Converts arrays of strings to tensors, because Keras does not accept the arrays.

    Raises:
        ValueError: If there are strings and the backend is not TensorFlow.
    """
    if not has_strings(inputs):
        return inputs
    if keras.backend.backend() != "tensorflow":
        raise ValueError(
            "Expected KERAS_BACKEND=tensorflow for string inputs. Received: the backend "
            f"{keras.backend.backend()}. Convert strings with `domains.map_inputs(function)`"
        )

    def convert(array):
        return keras.ops.convert_to_tensor(array, dtype="string") if has_strings(array) else array

    return keras.tree.map_structure(convert, inputs)


def reject_text_labels(labels: Any) -> None:
    """Raises `ValueError` if labels, an array or a tensor, are strings."""
    if has_strings(labels) or getattr(labels.dtype, "name", "") == "string":
        raise ValueError(
            f"Expected labels to be numbers. Received: {labels.dtype} of shape {labels.shape}. "
            "`numpy.unique(labels, return_inverse=True)` converts string labels to class numbers"
        )


def to_class_indices(labels: Any) -> np.ndarray:
    """Returns the class of each example, integers `(n,)`.

    Args:
        labels: Integers of any numeric type or booleans, `(n,)` or `(n, 1)`; or one-hot labels
            `(n, classes)`.

    Raises:
        ValueError: If labels are neither integers nor one-hot.

    Example:

    >>> from dann.data.conversion import to_class_indices
    >>> to_class_indices([[0, 1], [1, 0]]).tolist(), to_class_indices([[2.0], [0.0]]).tolist()
    ([1, 0], [2, 0])
    """
    indices = np.asarray(labels)
    is_binary = indices.ndim == 2 and indices.shape[1] > 1 and np.isin(indices, (0, 1)).all()
    if is_binary and (indices.sum(axis=1) == 1).all():
        indices = indices.argmax(axis=1)
    is_integral = indices.dtype.kind in "biuf" and np.array_equal(indices, np.round(indices))
    if indices.size != len(indices) or not is_integral:
        raise ValueError(
            "Expected labels to be one class number per example, or one-hot. "
            f"Received: {indices.dtype} of shape {indices.shape}. "
            "`numpy.unique(labels, return_inverse=True)` converts string labels to class numbers"
        )
    return indices.reshape(-1).astype("int64", copy=False)
