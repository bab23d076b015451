import fractions
import hashlib
import math
import os
import pathlib
import types

import numpy as np
import pytest

from dann.data.builders import usps
from dann.data.builders.usps import read_usps

RAW = pathlib.Path(os.environ.get("DANN_DATA_DIR", "../shared/data"))
REAL = RAW / "usps/usps.h5"
NAMES = {"train": "usps.bz2", "test": "usps.t.bz2"}


@pytest.mark.skipif(not REAL.is_file(), reason=f"needs the real USPS in {RAW}, or DANN_DATA_DIR")
@pytest.mark.parametrize(
    ("split", "sizes", "sha256"),
    [
        ("train", (542, 1194), "2f7c143ae36230217969192bdf6cf789ab7d6b192094d8469106db85e5f32496"),
        ("test", (147, 359), "0d676bfeece8e58939a4cf88aa0de0b720c60556b6ab1d02e37e9c1ca07b758b"),
    ],
)
def test_real_usps_is_read_exactly(split, sizes, sha256):
    images, labels = read_usps(REAL, split)
    assert images.shape[1:] == (16, 16, 1)
    counts = np.bincount(labels)
    assert (len(counts), counts.min(), counts.max()) == (10, *sizes)
    assert hashlib.sha256(images.tobytes()).hexdigest() == sha256


@pytest.mark.parametrize("split", NAMES)
def test_formats_agree_and_gray_rounds_half_up(usps_files, usps_digits, split):
    thousandths, labels = usps_digits[split]
    exact = [fractions.Fraction(255 * (int(k) + 1000), 2000) for k in thousandths.ravel()]
    expected = [math.floor(value + fractions.Fraction(1, 2)) for value in exact]
    for name in ("usps.h5", NAMES[split]):
        images, labels_read = read_usps(usps_files / name, split)
        assert images.dtype == np.uint8
        np.testing.assert_array_equal(images.ravel(), expected)
        np.testing.assert_array_equal(labels_read, labels)


def test_downloaded_files_are_verified(usps_files, tmp_path, monkeypatch):
    (tmp_path / "manual").mkdir()
    manager = types.SimpleNamespace(
        download=lambda urls: {k: usps_files / url.rsplit("/", 1)[1] for k, url in urls.items()},
        manual_dir=tmp_path / "manual",
    )
    with pytest.raises(ValueError, match="usps.bz2 with the MD5 ec16c51d.*Received: .*Delete"):
        usps._files(manager)
    paths = {split: usps_files / name for split, name in NAMES.items()}
    md5 = {split: hashlib.md5(path.read_bytes()).hexdigest() for split, path in paths.items()}
    monkeypatch.setattr(usps, "_MD5", md5)
    assert usps._files(manager) == paths
