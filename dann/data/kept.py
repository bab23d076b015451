"""Arrays that are computed once and kept in a file."""

import os
import pathlib
from collections.abc import Callable

import numpy as np


def kept(
    path: str | pathlib.Path, make: Callable[[], dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """Returns the arrays of a `.npz` file; makes and writes them first unless it is there.

    The file appears whole or not at all: it is written beside its place and renamed.

    Args:
        path: Where the arrays are kept.
        make: Computes them, by name.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays = make()
        beside = path.with_name(f"{path.stem}.{os.getpid()}.npz")
        try:
            np.savez(beside, **arrays)  # pyright: ignore[reportArgumentType]
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
        return arrays
    with np.load(path) as arrays:
        return dict(arrays)
