"""Rows of an array-like that stay in memory once they are read."""

from typing import Any

import numpy as np


class MemoryCache:
    """An array-like whose rows are read at their first use and kept in memory.

    Memory is taken row by row as it is filled, up to the size of all rows. Threads may share it:
    two that need one row at once both read it, and write the same values.

    Args:
        values: Anything with `shape` and `dtype` that gives rows for an array of indices, each time
            the same ones.
    """

    def __init__(self, values: Any):
        self.values = values
        self.shape = tuple(values.shape)
        self.dtype = values.dtype
        self._rows = np.empty(self.shape, self.dtype)
        self._known = np.zeros(len(self), bool)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, chosen: Any) -> np.ndarray:
        rows = np.arange(len(self))[chosen]
        wanted = np.unique(rows)
        missing = wanted[~self._known[wanted]]
        if missing.size:
            self._rows[missing] = self.values[missing]
            self._known[missing] = True
        return self._rows[rows]
