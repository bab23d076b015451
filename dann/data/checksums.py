"""Checksums of files and arrays: they tell what is whole and the same from what has changed."""

import json
import os
import pathlib
import zlib
from typing import Any

import numpy as np

NAME = "checksums.json"
_BLOCK = 1 << 22  # bytes read at once, or of an array at most


def checksum(path: str | os.PathLike) -> int:
    """Returns the CRC-32 of a file, the checksum of zip archives; about a second for 2 GB."""
    found, block = 0, memoryview(bytearray(_BLOCK))
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(block):
            found = zlib.crc32(block[:count], found)
    return found


def checksum_of_rows(array: np.ndarray) -> int:
    """Returns the CRC-32 of rows that are spread evenly over an array, at most 4 MiB of them."""
    count = max(1, _BLOCK // max(1, array[:1].nbytes))
    rows = array[np.unique(np.linspace(0, len(array) - 1, min(count, len(array))).astype(int))]
    held = repr(rows.tolist()).encode() if rows.dtype.hasobject else rows.tobytes()
    return zlib.crc32(held, zlib.crc32(f"{array.shape} {array.dtype}".encode()))


def seal(folder: pathlib.Path) -> None:
    """Writes the size and the checksum of each file of a folder beside them, not of folders in it.

    Raises:
        OSError: If the folder cannot be written to.
    """
    draft = folder / f"{NAME}.part"
    draft.write_text(json.dumps(_checksums(folder), indent=1))
    draft.replace(folder / NAME)


def is_sealed(folder: pathlib.Path) -> bool:
    """Returns whether a folder is sealed; older versions of this package did not seal."""
    return (folder / NAME).is_file()


def fault_of(folder: pathlib.Path) -> str | None:
    """Returns what is wrong with a sealed folder in a few words; `None` if nothing has changed."""
    try:
        expected: Any = json.loads((folder / NAME).read_text())
    except (OSError, ValueError):
        expected = None
    if not isinstance(expected, dict):
        return f"its {NAME} cannot be read"
    for name, noted in expected.items():
        try:
            found = _size_and_checksum(folder / name)
        except OSError:
            return f"{name} is missing"
        if found != noted:
            return f"{name} has changed since it was written"
    return None


def _checksums(folder):
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    return {name: _size_and_checksum(folder / name) for name in names if not name.startswith(NAME)}


def _size_and_checksum(path):
    return [path.stat().st_size, checksum(path)]
