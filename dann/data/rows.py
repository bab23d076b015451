"""A choice of an array's rows that stays where the array is."""

from typing import Any

import numpy as np


class Rows:
    """Rows of an array-like, read when they are asked for, and themselves like an array.

    NumPy copies the rows that an array of indices chooses; this keeps the indices instead, so that
    a memory map or `dann.data.ImageFiles` can be split without being read.

    Args:
        values: Anything with `shape`, `dtype` and rows that an array of indices chooses.
        indices: Integers `(n,)`, the rows in the order that is wanted.
    """

    def __init__(self, values: Any, indices: np.ndarray):
        self.values = values
        self.indices = np.asarray(indices)
        self.shape = (len(self.indices), *values.shape[1:])
        self.dtype = values.dtype

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, chosen: Any) -> np.ndarray:
        return self.values[self.indices[chosen]]
