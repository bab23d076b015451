"""A cache of arrays in files, and the folder for it."""

import os
import pathlib
import zipfile
import zlib
from collections.abc import Callable

import numpy as np

# What `numpy.load` raises for a file that is not a whole `.npz` archive of plain arrays.
NOT_AN_ARCHIVE = (zipfile.BadZipFile, zlib.error, EOFError, TypeError, ValueError)


def load_or_compute(
    path: str | pathlib.Path, compute: Callable[[], dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """Loads arrays from a `.npz` file, or computes them and writes the file.

    The file is written under another name and renamed, so that it is there whole or not at all. If
    it cannot be read, such as half of a copy, it is computed again; a printed line says so.
    """
    path = pathlib.Path(path)
    found = _load(path) if path.is_file() else None
    if found is not None:
        return found
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = compute()
    beside = path.with_name(f"{path.stem}.{os.getpid()}.npz")
    try:
        np.savez(beside, **arrays)  # pyright: ignore[reportArgumentType]
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return arrays


def make_folder(path: str | os.PathLike) -> pathlib.Path:
    """Returns a cache's folder and makes it if needed; `~` is the home directory.

    Raises:
        NotADirectoryError: If a file is in its place or in that of a parent.
    """
    folder = pathlib.Path(path).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        file = next(place for place in (folder, *folder.parents) if place.exists())
        raise NotADirectoryError(
            "A cache needs a folder; name another `cache_dir`, or remove the file in its place. "
            f"Received: {folder}, where {file} is a file"
        ) from None
    return folder


def _load(path):
    """The arrays of a file, or `None` if the file is not whole."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    except NOT_AN_ARCHIVE as error:
        print(f"{path} cannot be read and is made again: {error}")
        return None
