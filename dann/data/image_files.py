"""Images in files, as an array that decodes its rows on demand, and files of decoded images."""

import functools
import hashlib
import json
import os
import pathlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import filelock
import numpy as np
from PIL import Image, ImageOps

from dann.checks import check_choice, check_integer

EXTENSIONS = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")

_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
_FORM = 3  # version of the decoding; a new number makes every cache again
_CHUNK = 256
_MODES = {1: "L", 3: "RGB"}
# Pillow decodes without holding Python's lock. Two domains share the cores through one pool.
_POOL = ThreadPoolExecutor(thread_name_prefix="decode")


class ImageFiles:
    """Images in files, as an array-like uint8 `(n, height, width, channels)`.

    Indexing, `images[3]`, `images[:8]` or `images[indices]`, decodes those images in several
    threads. Each is turned as its EXIF entry says, loses its transparency and is resized:
    bilinear, antialiased where it shrinks, without keeping the aspect. The decoder itself shrinks a
    much larger JPEG first, to no less than the size. An animation gives its first frame, and 16
    bits give their upper 8. Images with more bits or with fractions cannot be read, because their
    range of values is unknown. Pillow refuses images of more than 178,956,970 pixels.

    Args:
        paths: The files: bmp, gif, jpg, png, ppm, tiff or webp, whatever they are called.
        image_size: Height and width in pixels, or one side.
        channels: 3 (default), or 1 for grey.

    Raises:
        ValueError: In indexing, if an image cannot be read.

    Example:

    >>> from dann.data.image_files import ImageFiles
    >>> images = ImageFiles(["a.jpg", "b.png", "c.webp"], image_size=(224, 224))
    >>> images.shape, images.dtype
    ((3, 224, 224, 3), dtype('uint8'))
    """

    def __init__(self, paths: Sequence[Any], image_size: int | Sequence[int], channels: int = 3):
        size, channels = check_image_size(image_size), check_choice("channels", channels, _MODES)
        self.paths = [os.fspath(path) for path in paths]
        self.shape = (len(self.paths), *size, channels)
        self.dtype = np.dtype(np.uint8)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, chosen: Any) -> np.ndarray:
        rows = np.arange(len(self))[chosen]
        images = np.empty((rows.size, *self.shape[1:]), self.dtype)
        decode = functools.partial(_decode_into, size=self.shape[1:3], mode=_MODES[self.shape[3]])
        list(_POOL.map(decode, images, [self.paths[row] for row in rows.flat]))
        return images.reshape(*rows.shape, *self.shape[1:])

    def check(self) -> None:
        """Reads every file's header; raises an error with the name of one that has none.

        Nothing is decoded, so that an image whose header is whole may still be unreadable.
        """
        for first in range(0, len(self), _CHUNK):  # a pool takes all that it is given into memory
            list(_POOL.map(_check_header, self.paths[first : first + _CHUNK]))

    def cached(self, directory: str | os.PathLike) -> np.ndarray:
        """Decodes every image once into a file, and returns it as a memory map.

        The file's name is a digest of the form of the images and of the paths, sizes and times of
        their files. Changed images are therefore decoded again, into another file.
        """
        status = [os.stat(path) for path in self.paths]
        files = [[p, s.st_size, s.st_mtime_ns] for p, s in zip(self.paths, status, strict=True)]
        digest = hashlib.sha256(json.dumps([_FORM, self.shape, files]).encode()).hexdigest()[:24]
        path = pathlib.Path(directory).expanduser() / f"{digest}.npy"
        starts = range(0, len(self), _CHUNK)
        return load_or_decode(path, self.shape, (self[start : start + _CHUNK] for start in starts))


def some(names: Sequence[str]) -> str:
    """Returns the first names in one phrase, for a message."""
    more = f" and {len(names) - 10} more" * (len(names) > 10)
    return (", ".join(names[:10]) or "(none)") + more


def check_image_size(image_size: Any) -> tuple[int, int]:
    """Returns the height and width of a side, or of a height and a width, of at least 1 pixel."""
    sides = np.broadcast_to(image_size, 2).tolist()
    height, width = (check_integer("image_size", side, 1, why="in pixels") for side in sides)
    return height, width


def _decode_into(image: np.ndarray, path: str, size: Sequence[int], mode: str) -> None:
    try:
        with Image.open(path, formats=_FORMATS) as file:
            file.draft(mode, (max(size), max(size)))  # square, because it may be turned next
            image[:] = _in_form(file, size, mode).reshape(image.shape)
    # For a broken file Pillow's decoders raise nearly anything: `SyntaxError`, `struct.error`, ...
    except Exception as error:
        raise ValueError(f"Expected an image. Received: {path}: {error}") from error


def _check_header(path):
    try:
        with Image.open(path, formats=_FORMATS):
            pass
    except Exception as error:  # as in `_decode_into`
        raise ValueError(f"Expected an image. Received: {path}: {error}") from error


def _in_form(image, size, mode):
    ImageOps.exif_transpose(image, in_place=True)
    if image.mode.startswith(("I", "F")):
        values = np.asarray(image)
        # Of other formats, Pillow has 16 bits in this mode, too.
        wide = image.mode == "F" or (image.mode == "I" and image.format == "TIFF")
        if wide or values.min() < 0 or values.max() > 0xFFFF:
            raise ValueError("Expected 8 or 16 bits a channel, without a sign")
        image = Image.fromarray((values >> 8).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")  # a palette's colours, without a warning
    return np.asarray(image.convert(mode).resize(size[::-1], Image.Resampling.BILINEAR))


def load_or_decode(path: pathlib.Path, shape: Sequence[int], parts: Iterable[Any]) -> np.ndarray:
    """Returns images from a `.npy` file as a memory map; writes the file if it is not there.

    It is written under another name and renamed, so that it is whole or absent, and of several
    processes one writes. A printed line tells its size first. A file that is there is only read, so
    its folder may be another user's.

    Args:
        path: The file.
        shape: Shape of the images.
        parts: The images, uint8, some at a time; read only to write the file.

    Raises:
        OSError: If there is no room for the file, or a file in the place of its folder.
    """
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(path.with_suffix(".lock")):
            if not path.is_file():
                _write(path, shape, parts)
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
