"""Arrays that are computed once and kept in a file."""

import os
import pathlib
import zipfile
import zlib
from collections.abc import Callable

import numpy as np


def kept(
    path: str | pathlib.Path, make: Callable[[], dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """Returns the arrays of a `.npz` file; makes and writes them first unless it is there.

    The file appears whole or not at all: it is written beside its place and renamed. One that
    cannot be read, such as half of a copy, is made anew, and that is printed.

    Args:
        path: Where the arrays are kept.
        make: Computes them, by name.
    """
    path = pathlib.Path(path)
    found = _read(path) if path.is_file() else None
    if found is not None:
        return found
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = make()
    beside = path.with_name(f"{path.stem}.{os.getpid()}.npz")
    try:
        np.savez(beside, **arrays)  # pyright: ignore[reportArgumentType]
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return arrays


def made_folder(path: str | os.PathLike) -> pathlib.Path:
    """Returns a folder to keep files in, made unless it is there; `~` is the home directory.

    Raises:
        NotADirectoryError: If it, or what it lies in, is a file.
    """
    folder = pathlib.Path(path).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        file = next(place for place in (folder, *folder.parents) if place.exists())
        raise NotADirectoryError(
            "Files are kept in a folder; name another `cache_dir`, or remove what is in its place. "
            f"Received: {folder}, where {file} is a file"
        ) from None
    return folder


def _read(path):
    """The arrays of a file, or `None` if it is not whole."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    except (zipfile.BadZipFile, zlib.error, EOFError, TypeError, ValueError) as error:
        print(f"{path} cannot be read and is made anew: {error}")
        return None
