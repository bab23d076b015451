import hashlib
import os
import pathlib
import types

import numpy as np
import pytest

from dann.data import tfds_pair
from dann.data.builders import mnist_m
from dann.data.builders.mnist_files import mnist_paths, read_mnist
from dann.data.builders.mnist_m import blend

RAW = pathlib.Path(os.environ.get("DANN_DATA_DIR", "../shared/data"))
needs_files = pytest.mark.skipif(
    not ((RAW / "mnist").is_dir() and (RAW / "bsds500").is_dir()),
    reason=f"needs the real MNIST and BSDS500 in {RAW}, or DANN_DATA_DIR",
)


def test_blend_is_the_absolute_difference():
    digits = np.zeros((200, 28, 28), "uint8")
    digits[:, 10:20, 10:20] = 255
    photo = np.random.default_rng(0).integers(0, 256, (30, 31, 3)).astype("uint8")
    crops = [photo[row:, column:][:28, :28] for row in range(3) for column in range(4)]
    expected = [np.abs(crop.astype(int) - digits[0][:, :, None]) for crop in crops]
    blends = {image.tobytes() for image in blend(digits, [photo], seed=0)}
    assert blends == {image.astype("uint8").tobytes() for image in expected}  # at every position


@needs_files
@pytest.mark.parametrize(
    ("seed", "split", "sha256"),
    [
        (1, "test", "f9650a42754c4b5b5cc2eb752a17fb0ee2bf7ed6bdddec706f997c6d438df70f"),
        pytest.param(
            *(0, "train", "4bba368dbb846620df60a8b39d04205d7a361834c270b735e8c8db28acfa660e"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_blends_of_real_files_are_pinned(seed, split, sha256):
    photos = [mnist_m._decode(path) for path in sorted((RAW / "bsds500").glob("*.jpg"))]
    digest = hashlib.sha256()
    for image in blend(read_mnist(mnist_paths(RAW / "mnist"), split)[0], photos, seed):
        digest.update(image.tobytes())
    assert digest.hexdigest() == sha256


def test_pair_contains_digits_and_blends(raw_files, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(raw_files.parent))
    folders = {"cache_dir": str(tmp_path / "cache"), "data_dir": f"~/{raw_files.name}"}
    domains = tfds_pair("mnist", "mnist_m", **folders)
    photos = [mnist_m._decode(raw_files / "bsds500" / name) for name in ("1.jpg", "2.jpg")]
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
        mnist_m._files(manager)
    content = (photos / "1.jpg").read_bytes() + (photos / "2.jpg").read_bytes()
    monkeypatch.setattr(mnist_m, "_PHOTOS", hashlib.sha256(content).hexdigest())
    assert mnist_m._files(manager)[1] == [photos / "1.jpg", photos / "2.jpg"]
