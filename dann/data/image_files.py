"""Images in files, as an array that decodes its rows on demand."""

import contextlib
import functools
import hashlib
import itertools
import json
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from dann.checks import check_choice, check_integer
from dann.data.cache import make_folder
from dann.data.image_cache import ImageCache

EXTENSIONS = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")

_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
_FORM = 2  # version of the decoding; a new number makes every cache again
_CHUNK = 256
_SAMPLE = 4096  # bytes
_MODES = {1: "L", 3: "RGB"}
MAX_PIXELS = 89_478_485  # Pillow's own limit, above which it warns: 256 MiB in colour
_LARGE = 1 << 22  # pixels; larger images are in memory one at a time
_ONE_LARGE = threading.Lock()
# Pillow decodes without holding Python's lock. Two domains share the cores through one pool.
_POOL = ThreadPoolExecutor(thread_name_prefix="decode")


class ImageFileError(ValueError, OSError):
    """An image file that cannot be read."""


class ImageFiles:
    """Images in files, as an array-like uint8 `(n, height, width, channels)`.

    Indexing, `images[3]`, `images[:8]` or `images[indices]`, decodes those images in several
    threads. Each is turned as its EXIF entry says, loses its transparency and is resized:
    bilinear, antialiased where it shrinks, without keeping the aspect. The decoder itself shrinks a
    much larger JPEG first, to no less than the size. An animation gives its first frame, and 16
    bits give their upper 8. Images with more bits or with fractions cannot be read, because their
    range of values is unknown.

    Args:
        paths: The files: bmp, gif, jpg, png, ppm, tiff or webp, whatever they are called.
        image_size: Height and width in pixels, or one side.
        channels: 3 (default), or 1 for grey.
        max_pixels: The most pixels, height times width, that a file may have; a small file may be
            the compressed form of a huge image. A file with more counts as unreadable, and only its
            header is read. Defaults to 89,478,485, of which a colour image takes 256 MiB.

    Raises:
        ImageFileError: In indexing, if an image cannot be read; a `ValueError` and an `OSError`.

    Example:

    >>> from dann.data.image_files import ImageFiles
    >>> images = ImageFiles(["a.jpg", "b.png", "c.webp"], image_size=(224, 224))
    >>> images.shape, images.dtype
    ((3, 224, 224, 3), dtype('uint8'))
    """

    def __init__(
        self,
        paths: Sequence[str | os.PathLike],
        image_size: int | Sequence[int],
        channels: int = 3,
        max_pixels: int = MAX_PIXELS,
    ):
        size, channels = check_image_size(image_size), check_choice("channels", channels, _MODES)
        self.max_pixels = check_integer("max_pixels", max_pixels, 1)
        self.paths = [os.fspath(path) for path in paths]
        self.shape = (len(self.paths), *size, channels)
        self.dtype = np.dtype(np.uint8)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, chosen: Any) -> np.ndarray:
        rows = np.arange(len(self))[chosen]
        images, errors = self._decode(rows.ravel())
        for row, error in errors.items():
            raise ImageFileError(f"Expected an image. Received: {self.paths[row]}") from error
        return images.reshape(*rows.shape, *self.shape[1:])

    def unreadable(self) -> list[int]:
        """Decodes every image once and returns the indices of those that it cannot read."""
        return [row for rows in self._chunks() for row in self._decode(rows)[1]]

    def without_header(self) -> list[int]:
        """Reads every file's header and returns the indices of those that no image begins with.

        Images with more than `max_pixels` are among them. Nothing is decoded, so that an image
        whose header is whole may still be unreadable.
        """
        check = functools.partial(_header_error, max_pixels=self.max_pixels)
        found = (_POOL.map(check, [self.paths[row] for row in rows]) for rows in self._chunks())
        return [row for row, error in enumerate(itertools.chain.from_iterable(found)) if error]

    def error_of(self, row: int) -> Exception | None:
        """Decodes an image and returns why it cannot be read, or `None`."""
        return self._decode(np.array([row]))[1].get(row)

    def cached(
        self, directory: str | os.PathLike, root: str | os.PathLike = "."
    ) -> tuple[np.ndarray, list[int]]:
        """Decodes every image once into a cache file, and returns it as a memory map.

        The file's name is a digest of the form of the images and of the paths, sizes, times and
        samples of their files (4 KiB each of the head, the middle and the tail). Changed images, or
        those of another folder with the same names, are therefore decoded again. The cache file is
        there whole or not at all. Its checksum is verified here, once a start; if it is broken, a
        printed line says so and it is made again.

        Args:
            directory: Folder of the cache file.
            root: Folder to which the paths in the digest are relative, so that it may be moved.

        Returns:
            Images, uint8 `(n, height, width, channels)`, read-only, and the indices of those that
            cannot be read, which are black.

        Raises:
            OSError: If there is no room for the file, or `directory` is a file.
        """
        store = ImageCache(make_folder(directory) / f"{self._digest(root)}.npy", self.shape)
        unreadable = store.filled(
            lambda: (self._decode(rows) for rows in self._chunks()),
            # A file may become readable without a change in it, by its permissions.
            still=lambda noted: list(self._decode(noted)[1]) == noted,
        )
        return store.images(), unreadable

    def _chunks(self):
        indices = np.arange(len(self))
        return (indices[start : start + _CHUNK] for start in range(0, len(self), _CHUNK))

    def _decode(self, rows):
        """Images `(len(rows), height, width, channels)`, black where unreadable, and the errors."""
        images = np.zeros((len(rows), *self.shape[1:]), self.dtype)
        form = {"size": self.shape[1:3], "mode": _MODES[self.shape[3]]}
        decode = functools.partial(_decode_into, **form, max_pixels=self.max_pixels)
        errors = _POOL.map(decode, images, [self.paths[row] for row in rows])
        return images, {int(row): error for row, error in zip(rows, errors, strict=True) if error}

    def _digest(self, root):
        files = [[os.path.relpath(path, root), *_trace(path)] for path in self.paths]
        return hashlib.sha256(json.dumps([_FORM, self.shape, files]).encode()).hexdigest()[:24]


def check_image_size(image_size: Any) -> tuple[int, int]:
    """Returns the height and width of a side, or of a height and a width, of at least 1 pixel."""
    pair = isinstance(image_size, Sequence) and not isinstance(image_size, str)
    sides = image_size if pair else [image_size] * 2
    if len(sides) != 2:
        raise ValueError(
            "Argument `image_size` must be a side, or a height and a width. "
            f"Received: image_size={image_size}"
        )
    height, width = (check_integer("image_size", side, 1, why="in pixels") for side in sides)
    return height, width


def _trace(path):
    """A file's size, time and a digest of samples; empty if it cannot be read."""
    try:
        with open(path, "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            sample = hashlib.sha256()
            end = max(0, status.st_size - _SAMPLE)
            for start in sorted({0, end // 2, end}):
                file.seek(start)
                sample.update(file.read(_SAMPLE))
    except OSError:
        return []
    return [status.st_size, status.st_mtime_ns, sample.hexdigest()]


def _decode_into(
    image: np.ndarray, path: str, size: Sequence[int], mode: str, max_pixels: int
) -> Exception | None:
    """Decodes a file into `image`, or returns the error."""
    try:
        image[:] = _decoded(path, size, mode, max_pixels).reshape(image.shape)
    # For a broken file Pillow's decoders raise nearly anything: `SyntaxError`, `struct.error`, ...
    except Exception as error:
        return error
    return None


def _header_error(path, max_pixels):
    """Why the header of a file is not that of an image, or `None`."""
    try:
        with open(path, "rb") as file, _opened(file, path, max_pixels):
            return None
    except Exception as error:  # as in `_decode_into`
        return error


def _decoded(path, size, mode, max_pixels):
    with open(path, "rb") as file, _opened(file, path, max_pixels) as image:
        image.draft(mode, (max(size), max(size)))  # square, because it may be turned next
        large = image.width * image.height > _LARGE
        with _ONE_LARGE if large else contextlib.nullcontext():
            return _in_form(image, size, mode)


def _opened(file, path, max_pixels):
    """An image of at most `max_pixels`; reads only its header.

    `Image.open` has a limit of its own for the whole process, and for a PostScript file it would
    have Ghostscript started.
    """
    Image.init()
    prefix = file.read(16)
    for name in _FORMATS:
        make, accepts = Image.OPEN[name]
        if accepts(prefix):
            file.seek(0)
            image = make(file, os.fspath(path))
            if image.width * image.height > max_pixels:
                raise ValueError(
                    f"Expected at most {max_pixels:,} pixels; raise `max_pixels` if you have the "
                    f"memory. Received: {image.width} x {image.height}"
                )
            return image
    raise ValueError(f"Expected one of the formats {', '.join(_FORMATS)}")


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
