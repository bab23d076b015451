"""A file of decoded images, which later runs read as a memory map."""

import pathlib
from collections.abc import Callable, Iterable, Sequence

import filelock
import numpy as np


def decoded_once(
    path: pathlib.Path, shape: Sequence[int], parts: Callable[[], Iterable[np.ndarray]]
) -> np.ndarray:
    """Returns images from a `.npy` file as a memory map; writes the file if it is not there.

    It is written under another name and renamed, so that it is whole or absent, and of several
    processes one writes. A printed line tells its size first. A file that is there is only read, so
    its folder may be another user's.

    Args:
        path: The file.
        shape: Shape of the images.
        parts: Gives the images, uint8, some at a time.

    Raises:
        OSError: If there is no room for the file, or a file in the place of its folder.
    """
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(path.with_suffix(".lock")):
            if not path.is_file():
                _write(path, shape, parts())
    return np.load(path, mmap_mode="r")


def _write(path, shape, parts):
    megabytes = np.prod(shape) / 1e6
    print(f"Decoding {shape[0]} images, once, into {path}: {megabytes:.1f} MB", flush=True)
    draft = path.with_suffix(".draft")
    try:
        with draft.open("wb") as file:
            header = {"descr": "|u1", "fortran_order": False, "shape": tuple(shape)}
            np.lib.format.write_array_header_1_0(file, header)
            for images in parts:
                file.write(images.data)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
