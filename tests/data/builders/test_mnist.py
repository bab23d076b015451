import gzip
import hashlib
import os
import pathlib
import types

import numpy as np
import pytest
import tensorflow_datasets as tfds

from dann.data import mnist_to_mnist_m
from dann.data.builders import mnist_m
from dann.data.builders.mnist_files import find_mnist, read_mnist
from dann.data.builders.mnist_m import blend
from dann.data.builders.prepared import prepared

RAW = pathlib.Path(os.environ.get("DANN_DATA_DIR", "../shared/data"))
needs_both = pytest.mark.skipif(
    not ((RAW / "mnist").is_dir() and (RAW / "bsds500").is_dir()),
    reason=f"needs the real MNIST and BSDS500 in {RAW}, or DANN_DATA_DIR",
)
needs_mnist = pytest.mark.skipif(
    not (RAW / "mnist").is_dir(), reason=f"needs the real MNIST in {RAW}, or DANN_DATA_DIR"
)


@needs_mnist
def test_the_real_mnist_is_read_to_the_last_byte():
    paths = find_mnist(RAW)
    images, labels = read_mnist(paths, "train")
    content = gzip.decompress(paths["train", "images"].read_bytes())
    assert hashlib.md5(content).hexdigest() == "6bbc9ace898e44ae57da46a324031adb"
    assert images.shape == (60_000, 28, 28)
    assert images.tobytes() == content[16:]
    np.testing.assert_array_equal(labels[:5], [5, 0, 4, 1, 9])
    assert read_mnist(paths, "test")[0].shape == (10_000, 28, 28)


def test_a_digit_is_blended_as_the_absolute_difference():
    digits = np.zeros((200, 28, 28), "uint8")
    digits[:, 10:20, 10:20] = 255
    photo = np.random.default_rng(0).integers(0, 256, (30, 31, 3)).astype("uint8")
    windows = np.lib.stride_tricks.sliding_window_view(photo, (28, 28), (0, 1)).reshape(
        12, 3, 28, 28
    )
    windows = windows.transpose(0, 2, 3, 1).astype(int)
    found = set()
    for image in blend(digits, [photo], seed=0):
        differences = np.abs(np.abs(windows - digits[0][:, :, None]) - image).sum(axis=(1, 2, 3))
        assert differences.min() == 0
        found.add(int(differences.argmin()))
    assert len(found) == 12  # every place is drawn


def test_blending_is_a_matter_of_the_seed():
    digits = np.zeros((3, 28, 28), "uint8")
    photos = [
        np.random.default_rng(s).integers(0, 256, (40, 40, 3)).astype("uint8") for s in (0, 1)
    ]
    first, again, other = (np.stack(list(blend(digits, photos, seed))) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("photos", [[], [np.zeros((20, 40, 3), "uint8")]])
def test_photos_that_are_too_small_are_refused(photos):
    with pytest.raises(ValueError, match=f"at least 28x28. Received: {len(photos)} photos"):
        next(blend(np.zeros((1, 28, 28), "uint8"), photos, seed=0))


def examples(builder, split):
    return [(e["image"], int(e["label"])) for e in tfds.as_numpy(builder.as_dataset(split=split))]


def test_the_builder_reads_the_manual_folder_and_stores_the_blends(raw_files, tmp_path):
    builder = prepared("mnist_m", str(tmp_path / "cache"), str(raw_files))
    photos = [mnist_m._decode(raw_files / "bsds500" / name) for name in ("1.jpg", "2.jpg")]
    for seed, split in enumerate(("train", "test")):
        digits, labels = read_mnist(find_mnist(raw_files), split)
        blended = zip(blend(digits, photos, seed), labels.tolist(), strict=True)
        found = examples(builder, split)
        assert {image.shape for image, _ in found} == {(28, 28, 3)}
        assert {image.dtype for image, _ in found} == {np.dtype("uint8")}
        assert sorted((image.tobytes(), label) for image, label in found) == sorted(
            (image.tobytes(), label) for image, label in blended
        )


@needs_both
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
def test_the_genuine_files_give_the_same_images_everywhere(seed, split, sha256):
    photos = [mnist_m._decode(path) for path in sorted((RAW / "bsds500").glob("*.jpg"))]
    digest = hashlib.sha256()
    for image in blend(read_mnist(find_mnist(RAW), split)[0], photos, seed):
        digest.update(image.tobytes())
    assert digest.hexdigest() == sha256


@pytest.fixture
def downloaded(raw_files):
    """A download manager that has to download the photos, and their folder."""
    photos = raw_files / "download/BSR/BSDS500/data/images/train"
    photos.parent.mkdir(parents=True)
    (raw_files / "bsds500").rename(photos)
    manager = types.SimpleNamespace(
        manual_dir=str(raw_files), download_and_extract=lambda url: raw_files / "download"
    )
    return manager, photos


def test_downloaded_photos_that_differ_are_refused(downloaded):
    with pytest.raises(ValueError, match="200 training photos.*b626d29a.*Received: 2 photos of"):
        mnist_m._files(downloaded[0])


def test_downloaded_photos_that_are_genuine_are_taken(downloaded, monkeypatch):
    manager, photos = downloaded
    content = (photos / "1.jpg").read_bytes() + (photos / "2.jpg").read_bytes()
    monkeypatch.setattr(mnist_m, "_PHOTOS", hashlib.sha256(content).hexdigest())
    assert mnist_m._files(manager)[1] == [photos / "1.jpg", photos / "2.jpg"]


def test_the_pair_has_three_channels_and_no_target_train_labels(raw_files, tmp_path):
    domains = mnist_to_mnist_m(str(tmp_path / "cache"), str(raw_files))
    assert domains.input_shape == (28, 28, 3)
    assert isinstance(domains.target_train, np.ndarray)
    images = domains.source_train[0]
    np.testing.assert_array_equal(images[..., 0], images[..., 2])


def test_a_folder_without_mnist_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="Expected the MNIST files.*without them"):
        find_mnist(tmp_path)


def test_a_file_of_another_format_is_refused(raw_files):
    (raw_files / "mnist/train-images-idx3-ubyte.gz").write_bytes(b"hello")
    with pytest.raises(ValueError, match="Expected an IDX file.*5 bytes that begin with 68656c6c"):
        read_mnist(find_mnist(raw_files), "train")


def test_a_truncated_file_is_refused(raw_files):
    path = raw_files / "mnist/train-labels-idx1-ubyte.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:-2]))
    with pytest.raises(ValueError, match="Expected an IDX file"):
        read_mnist(find_mnist(raw_files), "train")
