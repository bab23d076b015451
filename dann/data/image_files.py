"""Image files as an array that is decoded on demand, and caches of decoded images."""

import contextlib
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
from PIL import ExifTags, Image, ImageOps

from dann.checks import check_choice, check_integer
from dann.data.lazy_array import LazyArray

EXTENSIONS = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")

_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
_VERSION = 3  # of the decoding; a new number invalidates every cache
_CHUNK = 256
_MEASURED = 256  # images whose headers are read for the common size
_MAX_SIDE = 224  # pixels, the input of most pretrained networks
_MODES = {1: "L", 3: "RGB"}
# Pillow releases Python's lock while it decodes. All domains share the cores through one pool.
_POOL = ThreadPoolExecutor(thread_name_prefix="decode")


class ImageFiles(LazyArray):
    """Image files as an array-like uint8 `(n, height, width, channels)`.

    Indexing, such as `images[3]`, `images[:8]` or `images[indices]`, decodes the images in several
    threads. Each image is rotated by its EXIF orientation and resized, and its transparency is
    removed. Resizing is bilinear, antialiased when it shrinks, and does not preserve the aspect
    ratio. The decoder first shrinks a much larger JPEG, to no less than the final size.

    An animation is represented by its first frame, a 16-bit image by its upper 8 bits. Images with
    more bits or with floating-point values raise an error, because their range is unknown. Pillow
    rejects images of more than 178,956,970 pixels.

    Args:
        paths: Paths of bmp, gif, jpg, png, ppm, tiff or webp files, with any file extension.
        image_size: Height and width in pixels, or one number for both.
        channels: 3 for color (default), or 1 for gray.

    Raises:
        ValueError: On indexing, if an image cannot be read.

    Example:

    >>> from dann.data.image_files import ImageFiles
    >>> images = ImageFiles(["a.jpg", "b.png", "c.webp"], image_size=(224, 224))
    >>> images.shape, images.dtype
    ((3, 224, 224, 3), dtype('uint8'))
    """

    def __init__(self, paths: Sequence[Any], image_size: int | Sequence[int], channels: int = 3):
        size, channels = check_image_size(image_size), check_choice("channels", channels, _MODES)
        self.paths = [os.fspath(path) for path in paths]
        shape = (len(self.paths), *size, channels)
        super().__init__(shape, np.dtype(np.uint8), self._decode)

    def _decode(self, rows):
        images = np.empty((len(rows), *self.shape[1:]), self.dtype)
        decode = functools.partial(_decode_into, size=self.shape[1:3], mode=_MODES[self.shape[3]])
        list(_POOL.map(decode, images, [self.paths[row] for row in rows]))
        return images

    def check(self) -> None:
        """Reads the header of every file, without decoding images.

        An image with a valid header can still be unreadable.

        Raises:
            ValueError: If a file has no valid header; the message contains its path.
        """
        for first in range(0, len(self), _CHUNK):  # a pool keeps all its tasks in memory
            list(_POOL.map(_check_header, self.paths[first : first + _CHUNK]))

    def cached(self, directory: str | os.PathLike) -> np.ndarray:
        """Decodes every image once into a file, and returns this file as a memory map.

        The name of the file is a digest of the shape of the images and of the paths, sizes and
        modification times of their files, so changed images are decoded again.
        """
        status = [os.stat(path) for path in self.paths]
        files = [[p, s.st_size, s.st_mtime_ns] for p, s in zip(self.paths, status, strict=True)]
        digest = hashlib.sha256(json.dumps([_VERSION, self.shape, files]).encode()).hexdigest()[:24]
        path = pathlib.Path(directory).expanduser() / f"{digest}.npy"
        starts = range(0, len(self), _CHUNK)
        return load_or_decode(path, self.shape, (self[start : start + _CHUNK] for start in starts))


def format_names(names: Sequence[str]) -> str:
    """Returns the first ten names as one phrase, for a message."""
    if len(names) > 10:
        return f"{', '.join(names[:10])} and {len(names) - 10} more"
    return ", ".join(names) or "(none)"


def check_image_size(image_size: Any) -> tuple[int, int]:
    """Returns height and width, each at least 1 pixel, from one number or from two."""
    sides = np.atleast_1d(image_size).tolist()
    if not 0 < len(sides) <= 2:
        raise ValueError(f"Expected `image_size` to be height and width. Received: {image_size}")
    sides = [check_integer("image_size", side, 1, hint="in pixels") for side in sides]
    return sides[0], sides[-1]


def choose_image_size(paths: Sequence[str]) -> tuple[int, int]:
    """Returns the median height and width of images, each at most 224 pixels, and prints them.

    Only the headers of at most 256 evenly spaced images are read.
    """
    rows = np.linspace(0, len(paths) - 1, min(len(paths), _MEASURED)).astype(int)
    sizes = np.array(list(_POOL.map(_read_size, [paths[row] for row in rows])))
    height, width = np.minimum(np.median(sizes, axis=0), _MAX_SIDE).astype(int).tolist()
    print(f"Image size: {height} x {width} pixels, from the target's files (data.image_size)")
    return height, width


@contextlib.contextmanager
def _open(path):
    try:
        with Image.open(path, formats=_FORMATS) as file:
            yield file
    # Pillow's decoders raise almost any exception for a damaged file, such as `struct.error`.
    except Exception as error:
        detail = f"{error}. Replace or delete this file".replace(f" {path!r}", "")
        raise ValueError(f"Expected an image. Received: {path}: {detail}") from error


def _decode_into(image: np.ndarray, path: str, size: Sequence[int], mode: str) -> None:
    with _open(path) as file:
        file.draft(mode, (max(size), max(size)))  # square, because it may be rotated next
        ImageOps.exif_transpose(file, in_place=True)
        picture = file
        if file.mode.startswith(("I", "F")):
            values = np.asarray(file)
            # In formats other than TIFF, Pillow uses this mode for 16 bits too.
            is_wide = file.mode == "F" or (file.mode == "I" and file.format == "TIFF")
            if is_wide or values.min() < 0 or values.max() > 0xFFFF:
                raise ValueError("Expected 8 or 16 unsigned bits per channel")
            picture = Image.fromarray((values >> 8).astype(np.uint8))
        if picture.has_transparency_data:
            # Pillow warns if a palette with transparency is converted directly.
            picture = picture.convert("RGBA")
        pixels = picture.convert(mode).resize((size[1], size[0]), Image.Resampling.BILINEAR)
        image[:] = np.asarray(pixels).reshape(image.shape)


def _check_header(path):
    with _open(path):
        pass


def _read_size(path):
    """Returns the height and the width of an image after the EXIF rotation."""
    with _open(path) as file:
        is_rotated = file.getexif().get(ExifTags.Base.Orientation, 1) > 4  # by 90 degrees
        return file.size if is_rotated else file.size[::-1]


def load_or_decode(path: pathlib.Path, shape: Sequence[int], chunks: Iterable[Any]) -> np.ndarray:
    """Returns images from a `.npy` file as a memory map; writes the file first if it is missing.

    The file is written under another name and then renamed, so it is either complete or missing,
    and only one of several processes writes it. The size is printed first. An existing file is only
    read, so its folder may belong to another user.

    Args:
        path: Path of the file.
        shape: Shape of the images.
        chunks: Consecutive images, uint8 `(n, height, width, channels)`; read only if the
            file is written.

    Raises:
        OSError: If the disk is full, or a file has the name of the folder.
        ValueError: If the file is damaged.
    """
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(path.with_suffix(".lock")):
            if not path.is_file():
                _write(path, shape, chunks)
    try:
        return np.load(path, mmap_mode="r")
    except (EOFError, ValueError) as error:
        raise ValueError(
            f"Expected decoded images. Received: {path}, which is damaged. Delete this file"
        ) from error


def _write(path, shape, chunks):
    megabytes = np.prod(shape) / 1e6
    print(f"Decoding {shape[0]} images once into {path}: {megabytes:.1f} MB", flush=True)
    draft = path.with_suffix(".draft")
    try:
        with draft.open("wb") as file:
            header = {"descr": "|u1", "fortran_order": False, "shape": tuple(shape)}
            np.lib.format.write_array_header_1_0(file, header)
            for images in chunks:
                file.write(images.data)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
