"""MNIST from its four IDX files, and MNIST-M: MNIST digits blended over crops of photos."""

import gzip
import hashlib
import pathlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image

from dann.data.builders.image_builder import ImageBuilder, raw_folder

_MNIST_URL = "https://storage.googleapis.com/cvdf-datasets/mnist/"
_BSDS500_URL = (
    "https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/grouping/BSR/BSR_bsds500.tgz"
)
# SHA-256 of BSDS500's 200 training photos, concatenated in the order of their names.
_PHOTOS = "b626d29a9653bf7a573863ad2470032b8d6e01a04a88d1c1e4b599055eb60e71"
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


class MnistM(ImageBuilder):
    """TFDS builder of MNIST-M.

    Each MNIST digit is blended over a 28x28 crop, at a random position, of a random BSDS500
    training photo: every channel becomes `|crop - digit|`. The train split contains the MNIST train
    digits, the test split the MNIST test digits. The draws are seeded by split, so the genuine
    digits and photos result in the same images everywhere.

    References:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), section 5.2.4.
        - Arbelaez et al., 2011, Contour detection and hierarchical image segmentation: BSDS500.
    """

    MANUAL_DOWNLOAD_INSTRUCTIONS = "Optional: MNIST's IDX files in `mnist/`, `bsds500/*.jpg`."
    RAW = ("mnist", "bsds500")

    SHAPE = (28, 28, 3)

    def read_examples(self, split, dl_manager):
        mnist, photos = _find_files(dl_manager)
        digits, labels = read_mnist(mnist, split)
        blended = blend(digits, [_decode(path) for path in photos], int(split == "test"))
        return zip(blended, labels, strict=True)


def blend(digits: np.ndarray, photos: Sequence[np.ndarray], seed: int) -> Iterator[np.ndarray]:
    """Blends each digit over a random crop of a random photo: `|crop - digit|`.

    Args:
        digits: Gray images, uint8 `(n, height, width)`.
        photos: Color images, uint8 `(rows, columns, 3)`, each at least as large as a digit.
        seed: Seed of the draws.

    Yields:
        One color image per digit, uint8 `(height, width, 3)`.

    Raises:
        ValueError: If there is no photo, or a drawn photo is smaller than a digit.
    """
    height, width = digits.shape[1:]
    if not photos:
        raise ValueError("Expected photos `bsds500/*.jpg`. Received: none")
    rng = np.random.default_rng(seed)
    for digit in digits:
        photo = photos[int(rng.integers(len(photos)))]
        row = rng.integers(photo.shape[0] - height + 1)
        column = rng.integers(photo.shape[1] - width + 1)
        # Signed, so that the difference does not wrap around.
        crop = photo[row : row + height, column : column + width].astype(np.int16)
        yield np.abs(crop - digit[:, :, np.newaxis]).astype(np.uint8)


def _find_files(dl_manager) -> tuple[Any, list]:
    """Returns paths of the MNIST files and of the photos; downloads files of missing folders."""
    digits, photos = (raw_folder(dl_manager, name) for name in MnistM.RAW)
    if digits:
        mnist = mnist_paths(digits)
    else:
        mnist = dl_manager.download({key: _MNIST_URL + name for key, name in FILES.items()})
    if photos:
        return mnist, sorted(photos.glob("*.jpg"))
    extracted = pathlib.Path(dl_manager.download_and_extract(_BSDS500_URL))
    paths = sorted((extracted / "BSR/BSDS500/data/images/train").glob("*.jpg"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()
    if digest != _PHOTOS:
        raise ValueError(
            f"Expected BSDS500's 200 training photos with the SHA-256 {_PHOTOS} from "
            f"{_BSDS500_URL}. Received: {len(paths)} photos with {digest}. Delete {extracted} to "
            "download the photos again"
        )
    return mnist, paths


def _decode(path):
    with Image.open(path) as photo:
        return np.asarray(photo.convert("RGB"))
