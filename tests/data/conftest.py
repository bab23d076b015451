import bz2
import gzip
import struct

import h5py
import numpy as np
import pytest
from PIL import Image


def idx(array):
    header = struct.pack(f">{1 + array.ndim}I", 0x800 + array.ndim, *array.shape)
    return header + array.astype("uint8").tobytes()


@pytest.fixture
def usps_digits():
    """Returns thousandths from -1000 to 1000 `(n, 256)`, in train each value, and labels."""
    rng = np.random.default_rng(0)
    return {
        split: (rng.permutation(np.arange(size * 256) % 2001 - 1000).reshape(size, 256), labels)
        for split, size, labels in (("train", 12, np.arange(12) % 10), ("test", 6, np.arange(6)))
    }


@pytest.fixture
def usps_files(tmp_path, usps_digits):
    """Writes a folder `usps` with `usps_digits` in both formats."""
    folder = tmp_path / "usps"
    folder.mkdir()
    for split, name in (("train", "usps.bz2"), ("test", "usps.t.bz2")):
        thousandths, labels = usps_digits[split]
        with h5py.File(folder / "usps.h5", "a") as file:
            file[f"{split}/data"] = ((thousandths + 1000) / 2000).astype("float32")
            file[f"{split}/target"] = labels.astype("int32")
        lines = []
        for values, label in zip(thousandths, labels, strict=True):
            # LIBSVM's format: labels from 1, without values of 0.
            pixels = (f"{i}:{value / 1000:g}" for i, value in enumerate(values, 1) if value)
            lines.append(" ".join([str(label + 1), *pixels]))
        (folder / name).write_bytes(bz2.compress("\n".join(lines).encode()))
    return folder


@pytest.fixture
def raw_files(tmp_path, usps_files):
    """Writes raw files of the builders: 12 + 6 digits of MNIST and of USPS, and two photos."""
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
