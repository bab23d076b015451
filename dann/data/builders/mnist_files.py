"""MNIST from its four IDX files, and its TFDS builder."""

import gzip
import pathlib
import struct
from collections.abc import Mapping

import numpy as np

from dann.data.builders.image_builder import ImageBuilder

FILES = {
    ("train", "images"): "train-images-idx3-ubyte.gz",
    ("train", "labels"): "train-labels-idx1-ubyte.gz",
    ("test", "images"): "t10k-images-idx3-ubyte.gz",
    ("test", "labels"): "t10k-labels-idx1-ubyte.gz",
}


class MnistFiles(ImageBuilder):
    """TFDS builder of MNIST, 28x28 gray, from the four IDX files in `mnist/` of the manual folder.

    TFDS's own `mnist` always downloads, and rejects files that were compressed again.

    Reference:
        - LeCun et al., 1998, Gradient-based learning applied to document recognition.
    """

    MANUAL_DOWNLOAD_INSTRUCTIONS = "The four IDX files of MNIST in `mnist/`."
    RAW = ("mnist",)

    SHAPE = (28, 28, 1)

    def read_examples(self, split, dl_manager):
        folder = pathlib.Path(dl_manager.manual_dir, "mnist")
        images, labels = read_mnist(mnist_paths(folder), split)
        return zip(images[..., np.newaxis], labels, strict=True)


def mnist_paths(folder: pathlib.Path) -> dict[tuple[str, str], pathlib.Path]:
    """Returns the paths of the IDX files in a folder, by `(split, part)`."""
    return {key: folder / name for key, name in FILES.items()}


def read_mnist(paths: Mapping[tuple[str, str], pathlib.Path], split: str) -> tuple:
    """Reads one split.

    Args:
        paths: Paths of the files, as `mnist_paths` returns them.
        split: `"train"` (60,000 examples) or `"test"` (10,000).

    Returns:
        Images, uint8 `(n, 28, 28)`, 0 to 255, and labels, int64 `(n,)`.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If a file is not an IDX file of images or labels, as its name states.
    """
    images = _read_idx(paths[split, "images"], dimensions=3)
    return images, _read_idx(paths[split, "labels"], dimensions=1).astype(np.int64)


def _read_idx(path, dimensions):
    """Reads an IDX file: a magic number, big-endian 32-bit sizes, and one byte per value."""
    content = pathlib.Path(path).read_bytes()
    if content.startswith(b"\x1f\x8b"):  # gzip
        content = gzip.decompress(content)
    header = 4 + 4 * dimensions
    magic, *shape = struct.unpack_from(f">{1 + dimensions}I", content.ljust(header, b"\0"))
    # 0x08 means unsigned bytes; the last byte is the number of dimensions.
    if magic != 0x800 + dimensions or len(content) - header != int(np.prod(shape)):
        raise ValueError(
            f"Expected an IDX file of bytes with {dimensions} dimensions in {path}. "
            f"Received: {len(content)} bytes that begin with {content[:4].hex()}"
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)
