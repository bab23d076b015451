"""USPS: handwritten digits from envelopes."""

import bz2
import hashlib
import pathlib
from typing import Any

import h5py
import numpy as np
from sklearn.datasets import load_svmlight_file

from dann.data.builders.image_builder import ImageBuilder, raw_folder

_URL = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/"
_LIBSVM = {"train": "usps.bz2", "test": "usps.t.bz2"}
_MD5 = {"train": "ec16c51db3855ca6c91edd34d0e9b197", "test": "8ea070ee2aca1ac39742fdd1ef5ed118"}
_SIZE = 16


class Usps(ImageBuilder):
    """TFDS builder of USPS, 16x16 gray, white on black: 7,291 training and 2,007 test digits.

    The HDF5 file and the LIBSVM files contain the same images, bit for bit:
    [LIBSVM's data](https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass.html#usps).

    Reference:
        - Hull, 1994, A database for handwritten text recognition research.
    """

    MANUAL_DOWNLOAD_INSTRUCTIONS = "Optional: `usps/usps.h5`, or LIBSVM's `usps.bz2`, `usps.t.bz2`."
    RAW = ("usps",)

    SHAPE = (_SIZE, _SIZE, 1)

    def read_examples(self, split, dl_manager):
        return zip(*read_usps(_find_files(dl_manager)[split], split), strict=True)


def read_usps(path: str | pathlib.Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Reads one split.

    Files contain gray values in 2,000 steps, from -1 to 1 (LIBSVM) or from 0 to 1 (HDF5). Step `k`
    becomes the byte `(255 * k + 1000) // 2000`. Integers are used because some steps are halfway
    between two bytes, where rounding errors would otherwise determine the byte.

    Args:
        path: HDF5 file with both splits, or bzip2 file in LIBSVM format with this split.
        split: `"train"` or `"test"`.

    Returns:
        Images, uint8 `(n, 16, 16, 1)`, and labels, int64 `(n,)`, 0 to 9.

    Raises:
        ValueError: If the file does not contain such images and labels.
    """
    if h5py.is_hdf5(path):
        with h5py.File(path) as file:
            values, labels = (np.asarray(file[f"{split}/{name}"]) for name in ("data", "target"))
    else:  # values from -1 to 1, labels from 1 to 10
        with bz2.open(path) as file:
            table, labels = load_svmlight_file(file, n_features=_SIZE**2)
        values, labels = (table.toarray() + 1) / 2, labels - 1
    labels = labels.astype(np.int64)
    is_valid = values.shape == (len(labels), _SIZE**2) and np.isin(labels, range(10)).all()
    if not is_valid or not ((values >= 0) & (values <= 1)).all():
        raise ValueError(
            f"Expected digits in {path}: {_SIZE**2} values from 0 to 1 and a label from 0 to 9. "
            f"Received: values {values.shape}, labels {labels.shape}"
        )
    # Gray values from 0 to 1 in steps of 1/2000, as integers.
    steps = np.rint(2000 * values.astype(np.float64)).astype(np.int64)
    images = ((255 * steps + 1000) // 2000).astype(np.uint8)
    return images.reshape(-1, _SIZE, _SIZE, 1), labels


def _find_files(dl_manager) -> Any:
    """Returns paths by split, of files in the raw folder or of downloaded files."""
    folder = raw_folder(dl_manager, "usps")
    if folder and (folder / "usps.h5").is_file():
        return dict.fromkeys(_LIBSVM, folder / "usps.h5")
    if folder:
        return {split: folder / name for split, name in _LIBSVM.items()}
    paths = dl_manager.download({split: _URL + name for split, name in _LIBSVM.items()})
    for split, path in paths.items():
        md5 = hashlib.md5(pathlib.Path(path).read_bytes()).hexdigest()
        if md5 != _MD5[split]:
            raise ValueError(
                f"Expected {_URL + _LIBSVM[split]} with the MD5 {_MD5[split]}. "
                f"Received: {md5}. Delete {path} to download the file again"
            )
    return paths
