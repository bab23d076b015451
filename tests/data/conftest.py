import gzip
import struct

import numpy as np
import pytest
from PIL import Image


def idx(array):
    header = struct.pack(f">{1 + array.ndim}I", 0x800 + array.ndim, *array.shape)
    return header + array.astype("uint8").tobytes()


@pytest.fixture
def raw_files(tmp_path):
    """A folder as the MNIST-M builder reads it: 12 + 6 digits and two photos."""
    rng = np.random.default_rng(0)
    (tmp_path / "mnist").mkdir()
    for name, size in (("train", 12), ("t10k", 6)):
        images, labels = rng.integers(0, 256, (size, 28, 28)), np.arange(size) % 10
        for part, content in (("images-idx3", images), ("labels-idx1", labels)):
            file = tmp_path / "mnist" / f"{name}-{part}-ubyte.gz"
            file.write_bytes(gzip.compress(idx(content)))
    (tmp_path / "bsds500").mkdir()
    for name in ("1.jpg", "2.jpg"):
        photo = Image.fromarray(rng.integers(0, 256, (40, 50, 3)).astype("uint8"))
        photo.save(tmp_path / "bsds500" / name, quality=95)
    return tmp_path
