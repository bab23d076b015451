"""A cache file of decoded images, and the notes that tell whether it is whole."""

import json
import pathlib
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import filelock
import numpy as np

from dann.data.cache import check_room, in_gigabytes
from dann.data.checksums import checksum

_VERSION = 2  # of the notes; those of version 1 have no checksum


class ImageCache:
    """Images, uint8 `(n, height, width, channels)`, in a `.npy` file with notes beside it.

    The notes are a `.json` file with the indices of unreadable images and the checksum of the
    `.npy` file. They are written last.

    Args:
        path: The `.npy` file.
        shape: Shape of the images.
    """

    def __init__(self, path: pathlib.Path, shape: Sequence[int]):
        self.path = path
        self.notes = path.with_suffix(".json")
        self.shape = tuple(shape)

    def images(self) -> np.ndarray:
        """Returns the images as a memory map, read-only."""
        return np.load(self.path, mmap_mode="r")

    def unreadable(self) -> list[int]:
        """Returns the indices of unreadable images after a check of the whole file.

        Raises:
            FileNotFoundError: If there is no finished cache.
            ValueError: If the cache is broken or of another version; the message says how.
        """
        if not self.path.is_file():
            raise FileNotFoundError(self.path)
        indices, noted = self._noted()
        try:
            found = np.load(self.path, mmap_mode="r", allow_pickle=False)
        except Exception as error:  # a broken header can raise anything
            raise ValueError("it is truncated or not an array") from error
        if found.shape != self.shape or found.dtype != np.uint8:
            raise ValueError(f"it holds {found.dtype} {found.shape}, not uint8 {self.shape}")
        if checksum(self.path) != noted:
            raise ValueError("it has changed since it was written")
        return indices

    def filled(
        self,
        decoded: Callable[[], Iterable[tuple[np.ndarray, Iterable[int]]]],
        still: Callable[[list[int]], bool] = lambda noted: True,
    ) -> list[int]:
        """Writes the images unless there is a valid cache; returns the unreadable ones' indices.

        A printed line tells the size before it is written.

        Args:
            decoded: Gives the parts that `write` takes.
            still: Whether the images that a valid cache notes as unreadable still are.

        Raises:
            OSError: If there is no room for the file.
        """
        unreadable, _ = self._valid(still)
        if unreadable is None:
            # Of two processes one writes; the other waits and finds the finished file.
            with filelock.FileLock(self.path.with_suffix(".lock")):
                unreadable, fault = self._valid(still)
                if fault:
                    print(f"{self.path} is made again: {fault}", flush=True)
                if unreadable is None:
                    size = in_gigabytes(int(np.prod(self.shape)))
                    print(
                        f"Decoding {self.shape[0]} images, once, into {self.path}: {size}",
                        flush=True,
                    )
                    unreadable = self.write(decoded())
        return unreadable

    def _valid(self, still):
        """The unreadable indices that a valid cache notes, or `None`; and what is wrong with it."""
        try:
            noted = self.unreadable()
        except FileNotFoundError:
            return None, None
        except ValueError as error:
            return None, error
        return (noted if still(noted) else None), None

    def _noted(self) -> tuple[list[int], Any]:
        """The indices and the checksum in the notes."""
        try:
            notes = json.loads(self.notes.read_text())
        except ValueError as error:
            raise ValueError("it has notes that cannot be read") from error
        if not isinstance(notes, dict) or notes.get("version") != _VERSION:
            raise ValueError("it is of another version of this package")
        indices = notes.get("unreadable")
        known = range(self.shape[0])
        if not isinstance(indices, list) or not all(type(i) is int and i in known for i in indices):
            raise ValueError("it has notes of images that it does not have")
        return indices, notes.get("crc32")

    def write(self, parts: Iterable[tuple[np.ndarray, Iterable[int]]]) -> list[int]:
        """Writes images, a part after the other, and returns the indices of the unreadable ones.

        Both files are there whole or not at all.

        Args:
            parts: Some of the images in order, and the indices of those that cannot be read.

        Raises:
            OSError: If there is no room for the file.
        """
        check_room(self.path.parent, int(np.prod(self.shape)))
        partial, unreadable, crc = self.path.with_suffix(".partial"), [], 0
        try:
            with partial.open("w+b") as file:
                header = {"descr": "|u1", "fortran_order": False, "shape": self.shape}
                np.lib.format.write_array_header_1_0(file, header)
                file.seek(0)
                crc = zlib.crc32(file.read())
                for images, errors in parts:
                    crc = zlib.crc32(images.data, crc)
                    file.write(images.data)
                    unreadable += errors
            # The notes come last: they mark the cache as finished, and old ones would be wrong.
            self.notes.unlink(missing_ok=True)
            partial.replace(self.path)
            notes = {"version": _VERSION, "unreadable": unreadable, "crc32": crc}
            partial.write_text(json.dumps(notes))
            partial.replace(self.notes)
        finally:
            partial.unlink(missing_ok=True)
        return unreadable
