"""Reads arrays from a `.npz` archive, and checks their sizes before it allocates memory."""

import contextlib
import errno
import math
import os
import zipfile
from collections.abc import Iterator, Sequence

import numpy as np

# By how much a compressed member can grow at most; NumPy writes no other compressions.
_EXPANSIONS = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: 1032}
_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read_archive(
    path: str | os.PathLike, keys: Sequence[str] | None = None, max_gigabytes: float | None = None
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Reads arrays of a `.npz` file.

    Nothing in the file is run, and the size that an array's header declares must be that of its
    bytes before memory is taken for it. The checksums in the archive are verified.

    Args:
        path: The file.
        keys: Names of the arrays to read, where they are there. Defaults to all.
        max_gigabytes: The most that these arrays may take of memory, in 10^9 bytes. Defaults to
            `None`: no limit.

    Returns:
        The arrays by name, and the sorted names of all arrays in the file.

    Raises:
        OSError: If the file cannot be opened.
        ValueError: If it is broken or holds something else; or with the argument to raise in the
            message, if the arrays are too large.
    """
    with open(path, "rb") as file:
        with _told_as_broken(path):
            archive = zipfile.ZipFile(file)
            found = sorted(
                name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")
            )
            chosen = [name for name in found if keys is None or name in keys]
            members = {name: archive.getinfo(f"{name}.npy") for name in chosen}
            for member in members.values():
                _check_header(archive, member)
        total = sum(member.file_size for member in members.values())
        if max_gigabytes is not None and total > max_gigabytes * 1e9:
            raise ValueError(
                f"The arrays of a file may take {max_gigabytes:g} GB; raise `max_gigabytes` if you "
                f"have the memory. Received: {path} with {total / 1e9:.3g} GB"
            )
        with _told_as_broken(path):
            return {name: _array(archive, member) for name, member in members.items()}, found


@contextlib.contextmanager
def _told_as_broken(path) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # a broken archive can raise anything
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise  # an error of the disk, not of the archive
        raise ValueError(f"Expected an .npz file of arrays. Received: {path}") from error


def _check_header(archive, member):
    """Raises an error unless the declared shape is that of the declared bytes."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        shape, _, dtype = _READERS[version](file)
        size = member.file_size - file.tell()
    most = _EXPANSIONS[member.compress_type] * member.compress_size
    if member.file_size > most or member.compress_size > os.fstat(archive.fp.fileno()).st_size:
        raise ValueError(f"{member.filename} declares more than the file can hold")
    # Elements without a size could be any number of them.
    if dtype.hasobject or math.prod(shape) * max(dtype.itemsize, 1) != size:
        raise ValueError(f"{member.filename} declares {dtype} {shape} in {size} bytes")


def _array(archive, member):
    with archive.open(member) as file:
        array = np.lib.format.read_array(file, allow_pickle=False)
        if file.read(1):  # reading to the end verifies the checksum
            raise ValueError(f"{member.filename} is longer than its array")
    return array
