"""Kinds of caches and their bounds, a cache of arrays in files, and the folder for it."""

import math
import os
import pathlib
import shutil
from collections.abc import Callable

import filelock
import numpy as np
import psutil

from dann.data.array_archive import read_archive

CACHES = ("memory", "disk", "none")  # where decoded images are kept


def load_or_compute(
    path: str | pathlib.Path,
    compute: Callable[[], dict[str, np.ndarray]],
    fits: Callable[[dict[str, np.ndarray]], bool] = lambda arrays: True,
) -> dict[str, np.ndarray]:
    """Loads arrays from a `.npz` file, or computes them and writes the file.

    The file is written under another name and renamed, so that it is complete or absent; a second
    process waits for the first. The checksums in the file are verified. If it is broken, such as
    half of a copy, or holds other arrays, it is computed again; a printed line says so.

    Args:
        path: The file.
        compute: Computes the arrays by name.
        fits: Whether arrays that were loaded are those that are wanted. Defaults to any.
    """
    path = pathlib.Path(path)
    if path.is_file():
        found, _ = _load(path, fits)
        if found is not None:
            return found
    path.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(path.with_suffix(".lock")):
        found, fault = _load(path, fits) if path.is_file() else (None, None)
        if found is not None:
            return found
        if fault:
            print(f"{path} is made again: {fault}", flush=True)
        arrays = compute()
        beside = path.with_name(f"{path.stem}.partial.npz")
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


def check_room(folder: pathlib.Path, size: int) -> None:
    """Raises an `OSError` unless the disk of a folder has room for a cache of `size` bytes."""
    free = shutil.disk_usage(folder).free
    if free < size:
        raise OSError(
            f"The images take {in_gigabytes(size)} in the cache; choose another `cache_dir`, or "
            f"`cache=none`. Received: {folder} with {in_gigabytes(free)} free"
        )


def check_memory(size: int) -> None:
    """Raises a `ValueError` unless `size` bytes of memory are available.

    They must be free on the machine, and within the limit of a container or a scheduler where Linux
    control groups set one.
    """
    available = int(min(psutil.virtual_memory().available, left_in_groups()))
    if available < size:
        raise ValueError(
            f"The images take {in_gigabytes(size)} in memory; choose `cache=none`, or `cache=disk`."
            f" Received: {in_gigabytes(available)} of memory available"
        )


def left_in_groups(
    own: pathlib.Path = pathlib.Path("/proc/self/cgroup"),
    root: pathlib.Path = pathlib.Path("/sys/fs/cgroup"),
) -> float:
    """Returns the bytes of memory that control groups leave this process, infinite without a limit.

    Args:
        own: The file with the groups of this process, a line `number:controllers:path` for each.
        root: The folder of all groups.
    """
    lines = own.read_text().splitlines() if own.is_file() else []
    left = [math.inf]
    for _, controllers, path in (line.split(":", 2) for line in lines):
        if controllers in ("", "memory"):  # version 2, which has one tree, and version 1
            top = root / controllers
            parts = pathlib.PurePath(path).parts[1:]
            left += [_left_in(top.joinpath(*parts[:depth])) for depth in range(len(parts) + 1)]
    return max(0, min(left))


def _left_in(group):
    """The bytes that one group leaves; pages of files that it may drop count as left."""
    for limit, used in (("max", "current"), ("limit_in_bytes", "usage_in_bytes")):
        try:
            most, taken = (int((group / f"memory.{name}").read_text()) for name in (limit, used))
            pairs = (line.split() for line in (group / "memory.stat").read_text().splitlines())
            files = {name: int(size) for name, size in pairs}
        except (OSError, ValueError):  # no such group, or "max", which is no limit
            continue
        return most - taken + files.get("total_inactive_file", files.get("inactive_file", 0))
    return math.inf


def in_gigabytes(size: int) -> str:
    """Returns a number of bytes in words, such as `1.2 GB`."""
    return f"{size / 1e9:.1f} GB" if size >= 5e7 else f"{size / 1e6:.1f} MB"


def _load(path, fits):
    """The arrays of a file and `None`, or `None` and what is wrong with them."""
    try:
        arrays, _ = read_archive(path)
    except ValueError as error:
        return None, f"it cannot be read, {error.__cause__}"
    return (arrays, None) if fits(arrays) else (None, "it holds other arrays")
