"""MNIST from its four IDX files, and the TFDS builder of it."""

import gzip
import pathlib
import struct
from collections.abc import Mapping

import numpy as np
import tensorflow_datasets as tfds

from dann.data.builders.digit_images import DigitImages

FILES = {
    ("train", "images"): "train-images-idx3-ubyte.gz",
    ("train", "labels"): "train-labels-idx1-ubyte.gz",
    ("test", "images"): "t10k-images-idx3-ubyte.gz",
    ("test", "labels"): "t10k-labels-idx1-ubyte.gz",
}


class MnistFiles(DigitImages):
    """TFDS builder of MNIST, 28x28 grey, from the four IDX files in the manual directory.

    TFDS's own `mnist` always downloads, and refuses files that were compressed again.
    """

    MANUAL_DOWNLOAD_INSTRUCTIONS = "The four IDX files of MNIST, as they are or in `mnist/`."

    SHAPE = (28, 28, 1)
    DESCRIPTION = "Handwritten digits."
    HOMEPAGE = "http://yann.lecun.com/exdb/mnist/"
    CITATION = "LeCun et al., 1998, Gradient-Based Learning Applied to Document Recognition"

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict:
        paths = find_mnist(pathlib.Path(dl_manager.manual_dir))
        return {
            split: self._generate_examples(zip(images[..., np.newaxis], labels, strict=True))
            for split in ("train", "test")
            for images, labels in [read_mnist(paths, split)]
        }


def find_mnist(directory: str | pathlib.Path) -> dict[tuple[str, str], pathlib.Path]:
    """Returns the paths by `(split, part)`, of files in `directory` or in `mnist/` below it.

    Raises:
        FileNotFoundError: If a file is missing.
    """
    directory = pathlib.Path(directory).expanduser()
    for folder in (directory / "mnist", directory):
        paths = {key: folder / name for key, name in FILES.items()}
        if all(path.is_file() for path in paths.values()):
            return paths
    raise FileNotFoundError(
        f"Expected the MNIST files {sorted(FILES.values())} in {directory} or {directory / 'mnist'}"
        f". Received: a directory {'without them' if directory.is_dir() else 'that does not exist'}"
    )


def read_mnist(paths: Mapping[tuple[str, str], pathlib.Path], split: str) -> tuple:
    """Reads one split.

    Args:
        paths: Paths of the files, as `find_mnist` returns them.
        split: `"train"` (60,000 examples) or `"test"` (10,000).

    Returns:
        Images, uint8 `(n, 28, 28)`, 0 to 255, and labels, int64 `(n,)`.

    Raises:
        ValueError: If a file is not the IDX file that its name says.
    """
    images = _read_idx(paths[split, "images"], dimensions=3)
    labels = _read_idx(paths[split, "labels"], dimensions=1).astype(np.int64)
    if len(images) != len(labels):
        raise ValueError(
            f"MNIST {split} must have one label for each image. "
            f"Received: {len(images)} images and {len(labels)} labels"
        )
    return images, labels


def _read_idx(path, dimensions):
    """An IDX file: a magic number, the sizes as big-endian 32-bit integers, the bytes."""
    content = pathlib.Path(path).read_bytes()
    if content.startswith(b"\x1f\x8b"):
        content = gzip.decompress(content)
    header = 4 + 4 * dimensions
    magic, *shape = struct.unpack_from(f">{1 + dimensions}I", content.ljust(header, b"\0"))
    if magic != 0x800 + dimensions or len(content) - header != int(np.prod(shape)):
        raise ValueError(
            f"Expected an IDX file of bytes with {dimensions} dimensions in {path}. "
            f"Received: {len(content)} bytes that begin with {content[:4].hex()}"
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)
