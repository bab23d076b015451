"""Array-likes made of other array-likes, whose rows are read on demand."""

from collections.abc import Sequence
from typing import Any

import numpy as np


class Rows:
    """Some rows of an array-like, as an array-like.

    NumPy copies the rows that an array of indices chooses. This class keeps the indices instead, so
    that a memory map or `dann.data.ImageFiles` can be split without being read.

    Args:
        values: Anything with `shape` and `dtype` that gives rows for an array of indices.
        indices: Integers `(n,)`, the rows in the order in which they are wanted.
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
    """Several array-likes one after the other, as one.

    Args:
        parts: Things with `shape`, `dtype` and `len` that give rows for an array of indices. Only
            their numbers of rows may differ.
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
