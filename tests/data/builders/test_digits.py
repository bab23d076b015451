"""Builders of MNIST, MNIST-M, USPS and the digits of scikit-learn."""

import fractions
import hashlib
import math
import types

import numpy as np
import pytest
from sklearn.datasets import load_digits
from support.archives import REAL_DATA, needs_real

from dann.data import digits_to_photos, tfds_pair
from dann.data.builders import mnist, usps
from dann.data.builders.chalk_digits import _draw_crops, _load_part
from dann.data.builders.mnist import blend, mnist_paths, read_mnist
from dann.data.builders.usps import read_usps


def test_blend_is_the_absolute_difference():
    digits = np.zeros((200, 28, 28), "uint8")
    digits[:, 10:20, 10:20] = 255
    photo = np.random.default_rng(0).integers(0, 256, (30, 31, 3)).astype("uint8")
    crops = [photo[row:, column:][:28, :28] for row in range(3) for column in range(4)]
    expected = [np.abs(crop.astype(int) - digits[0][:, :, None]) for crop in crops]
    blends = {image.tobytes() for image in blend(digits, [photo], seed=0)}
    assert blends == {image.astype("uint8").tobytes() for image in expected}  # at every position


@needs_real("mnist", "bsds500")
def test_blends_of_real_files_are_pinned():
    photos = [mnist._decode(path) for path in sorted((REAL_DATA / "bsds500").glob("*.jpg"))]
    digest = hashlib.sha256()
    for image in blend(read_mnist(mnist_paths(REAL_DATA / "mnist"), "test")[0], photos, seed=1):
        digest.update(image.tobytes())
    expected = "f9650a42754c4b5b5cc2eb752a17fb0ee2bf7ed6bdddec706f997c6d438df70f"
    assert digest.hexdigest() == expected


def test_pair_contains_digits_and_blends(raw_files, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(raw_files.parent))
    folders = {"cache_dir": str(tmp_path / "cache"), "data_dir": f"~/{raw_files.name}"}
    domains = tfds_pair("mnist", "mnist_m", **folders)
    photos = [mnist._decode(raw_files / "bsds500" / name) for name in ("1.jpg", "2.jpg")]
    digits, labels = read_mnist(mnist_paths(raw_files / "mnist"), "test")
    expected = zip(blend(digits, photos, 1), labels.tolist(), strict=True)
    blends = zip(domains.target_test[0], domains.target_test[1].tolist(), strict=True)
    content = [sorted((image.tobytes(), y) for image, y in part) for part in (blends, expected)]
    assert content[0] == content[1]
    images = domains.source_train[0]
    assert images.shape == domains.target_train.shape == (12, 28, 28, 3)
    gray, _ = read_mnist(mnist_paths(raw_files / "mnist"), "train")
    assert {image.tobytes() for image in images[..., 2]} == {image.tobytes() for image in gray}


def test_downloaded_photos_are_verified(raw_files, monkeypatch):
    photos = raw_files / "download/BSR/BSDS500/data/images/train"
    photos.parent.mkdir(parents=True)
    (raw_files / "bsds500").rename(photos)
    manager = types.SimpleNamespace(
        manual_dir=str(raw_files), download_and_extract=lambda url: raw_files / "download"
    )
    with pytest.raises(ValueError, match="200 training photos.*b626d29a.*Received: 2 photos with"):
        mnist._find_files(manager)
    content = (photos / "1.jpg").read_bytes() + (photos / "2.jpg").read_bytes()
    monkeypatch.setattr(mnist, "_PHOTOS", hashlib.sha256(content).hexdigest())
    assert mnist._find_files(manager)[1] == [photos / "1.jpg", photos / "2.jpg"]


NAMES = {"train": "usps.bz2", "test": "usps.t.bz2"}


@needs_real("usps")
def test_real_usps_is_read_exactly():
    hashes = {
        split: hashlib.sha256(read_usps(REAL_DATA / "usps/usps.h5", split)[0].tobytes()).hexdigest()
        for split in NAMES
    }
    assert hashes == {
        "train": "2f7c143ae36230217969192bdf6cf789ab7d6b192094d8469106db85e5f32496",
        "test": "0d676bfeece8e58939a4cf88aa0de0b720c60556b6ab1d02e37e9c1ca07b758b",
    }


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
        usps._find_files(manager)
    paths = {split: usps_files / name for split, name in NAMES.items()}
    md5 = {split: hashlib.md5(path.read_bytes()).hexdigest() for split, path in paths.items()}
    monkeypatch.setattr(usps, "_MD5", md5)
    assert usps._find_files(manager) == paths


@pytest.mark.slow
def test_black_config_is_grayscale_and_photo_config_is_color(cache):
    domains = digits_to_photos(str(cache))
    assert domains.input_shape == (16, 16, 3)
    sizes = len(domains.source_train[0]), len(domains.target_train), len(domains.target_test[0])
    assert sizes == (8000, 8000, 599)
    source, target = domains.source_test[0].astype(int), domains.target_test[0].astype(int)
    assert np.ptp(source, axis=-1).max() == 0
    assert np.ptp(target, axis=-1).mean() > 10
    np.testing.assert_array_equal(np.sort(domains.source_test[1]), np.sort(domains.target_test[1]))


def test_source_target_and_test_digits_are_disjoint():
    names = "black", "photo", "test"
    parts = [{digit.tobytes() for digit in _load_part(name)[0]} for name in names]
    assert set.union(*parts) == {(image / 16).tobytes() for image in load_digits().images}
    assert sum(map(len, parts)) == len(set.union(*parts))


def test_train_and_test_crops_come_from_different_halves():
    halves = [
        {next(crops)[3, 3].tobytes() for _ in range(3000)}
        for crops in (_draw_crops(np.random.default_rng(0), right=side) for side in (False, True))
    ]
    assert len(halves[0] & halves[1]) < 0.01 * len(halves[0])
