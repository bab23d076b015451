"""Arrays whose rows are computed when they are indexed."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


class LazyArray:
    """An array-like whose rows are read on demand.

    Indexing with an integer, a slice, an array of integers or a mask works as for a NumPy array,
    along the first axis only.

    Args:
        shape: Shape of the array, `(n, ...)`.
        dtype: NumPy data type of the array.
        read: Function of row numbers, integers `(k,)`, that returns these rows, `(k, ...)`.

    Example:

    >>> import numpy as np
    >>> from dann.data.lazy_array import LazyArray
    >>> squares = LazyArray((5,), np.dtype(int), lambda rows: rows**2)
    >>> len(squares), squares[1:4].tolist(), int(squares[-1])
    (5, [1, 4, 9], 16)
    """

    def __init__(
        self, shape: Sequence[int], dtype: np.dtype, read: Callable[[np.ndarray], np.ndarray]
    ):
        self.shape = tuple(shape)
        self.dtype = dtype
        self.read = read
        self._rows = np.arange(self.shape[0])  # kept, because each batch indexes it

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> np.ndarray:
        rows = self._rows[index]
        values = self.read(np.atleast_1d(rows))
        return values if np.ndim(rows) else values[0]


def select_rows(values: Any, rows: np.ndarray) -> Any:
    """Returns rows of an array-like; copies only an array in memory.

    For a memory map or `ImageFiles`, the result reads the rows when they are indexed.

    Args:
        values: Array, or an array-like with `shape` and `dtype` that is indexed by row numbers.
        rows: Row numbers `(n,)`, in the order of the result.
    """
    if type(values) is np.ndarray:
        return values[rows]
    shape = len(rows), *values.shape[1:]
    return LazyArray(shape, values.dtype, lambda numbers: values[rows[numbers]])


def concatenate(arrays: Sequence[Any]) -> Any:
    """Joins array-likes along the first axis; copies only arrays in memory.

    Args:
        arrays: Array-likes that differ only in their numbers of rows.
    """
    if all(isinstance(array, np.ndarray) for array in arrays):
        return np.concatenate(arrays)
    row_shape, dtype = arrays[0].shape[1:], arrays[0].dtype

    def read(rows):
        values = np.empty((len(rows), *row_shape), dtype)
        start = 0
        for array in arrays:
            positions = np.flatnonzero((start <= rows) & (rows < start + len(array)))
            if positions.size:
                values[positions] = array[rows[positions] - start]
            start += len(array)
        return values

    return LazyArray((sum(map(len, arrays)), *row_shape), dtype, read)
