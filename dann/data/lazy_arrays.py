"""Arrays made of others, which stay where they are."""

from collections.abc import Sequence
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


class Joined:
    """Several array-likes one after the other, read when rows are asked for.

    Args:
        parts: Anything with `shape`, `dtype`, `len` and rows that an array of indices chooses, all
            of one shape but for the number of rows, and of one type.
    """

    def __init__(self, parts: Sequence[Any]):
        self.parts = list(parts)
        self.ends = np.cumsum([len(part) for part in self.parts])
        self.shape = (int(self.ends[-1]), *self.parts[0].shape[1:])
        self.dtype = self.parts[0].dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, chosen: Any) -> np.ndarray:
        rows = np.arange(len(self))[chosen]
        flat = np.atleast_1d(rows)
        found = np.empty((len(flat), *self.shape[1:]), self.dtype)
        for part, end in zip(self.parts, self.ends, strict=True):
            start = end - len(part)
            its = np.flatnonzero((start <= flat) & (flat < end))
            if its.size:
                found[its] = part[flat[its] - start]
        return found if np.ndim(rows) else found[0]
