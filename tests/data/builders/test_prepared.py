import gzip
import json
import shutil
from typing import Any

import h5py
import numpy as np
import pytest
import tensorflow_datasets as tfds
from PIL import Image

from dann.data.builders.mnist_files import find_mnist, read_mnist
from dann.data.builders.prepared import prepared

PARTS = {"mnist": "mnist", "usps": "usps", "mnist_m": "mnist"}


def change_mnist(folder):
    path = folder / "mnist/train-labels-idx1-ubyte.gz"
    content = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(content[:-1] + bytes([9 - content[-1]])))


def change_usps(folder):
    with h5py.File(folder / "usps/usps.h5", "a") as file:
        labels: Any = file["train/target"]
        labels[0] = 9 - labels[0]


CHANGES = {"mnist": change_mnist, "usps": change_usps, "mnist_m": change_mnist}


@pytest.fixture
def other_files(raw_files, tmp_path_factory):
    return shutil.copytree(raw_files, tmp_path_factory.mktemp("other"), dirs_exist_ok=True)


@pytest.fixture
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("name", CHANGES)
def test_raw_files_changed_since_the_preparation_are_refused(name, raw_files, other_files, cache):
    made = prepared(name, str(cache), str(raw_files))
    assert prepared(name, str(cache), str(other_files)).data_path == made.data_path  # are alike
    CHANGES[name](other_files)
    message = f"{made.data_path} was made of .* other data of {PARTS[name]}$"
    with pytest.raises(ValueError, match=message):
        prepared(name, str(cache), str(other_files))
    shutil.rmtree(made.data_path)
    prepared(name, str(cache), str(other_files))
    with pytest.raises(ValueError, match="delete that folder to make it again, or name another"):
        prepared(name, str(cache), str(raw_files))


def test_changed_photos_are_refused_and_missing_ones_are_not(raw_files, other_files, cache):
    prepared("mnist_m", str(cache), str(raw_files))
    Image.new("RGB", (50, 40)).save(other_files / "bsds500/1.jpg")
    with pytest.raises(ValueError, match="with other data of bsds500$"):
        prepared("mnist_m", str(cache), str(other_files))
    shutil.rmtree(other_files / "bsds500")
    prepared("mnist_m", str(cache), str(other_files))


def test_the_same_data_in_another_format_are_accepted(raw_files, other_files, cache):
    for path in (other_files / "mnist").iterdir():
        path.write_bytes(gzip.decompress(path.read_bytes()))
    (other_files / "usps/usps.h5").unlink()  # and the LIBSVM files are left
    for name in ("mnist", "usps"):
        for folder in (raw_files, other_files):
            prepared(name, str(cache), str(folder))


@pytest.mark.parametrize("name", ["usps", "mnist_m"])
def test_a_prepared_set_needs_no_raw_files(name, raw_files, cache, tmp_path_factory):
    made = prepared(name, str(cache), str(raw_files))
    for folder in (None, str(tmp_path_factory.mktemp("empty"))):
        assert prepared(name, str(cache), folder).data_path == made.data_path


@pytest.mark.parametrize("name", CHANGES)
def test_a_set_prepared_without_digests_is_accepted(name, raw_files, other_files, cache):
    notes = prepared(name, str(cache), str(raw_files)).data_path / "metadata.json"
    assert set(json.loads(notes.read_text())["made_of"]) >= {PARTS[name]}
    if name == "mnist_m":
        notes.write_text('{"genuine": false}')
    else:
        notes.unlink()
    (notes.parent / "checksums.json").unlink()
    CHANGES[name](other_files)
    builder = prepared(name, str(cache), str(other_files))
    assert builder.info.splits["train"].num_examples == 12


def test_the_home_directory_stands_for_a_tilde(raw_files, cache, monkeypatch):
    monkeypatch.setenv("HOME", str(raw_files.parent))
    folder = f"~/{raw_files.name}"
    images, labels = read_mnist(find_mnist(folder), "test")
    assert images.shape == (6, 28, 28)
    builder: Any = prepared("mnist", str(cache), folder)
    assert builder.name == "mnist_files"
    found = tfds.as_numpy(builder.as_dataset(split="test", batch_size=-1))
    np.testing.assert_array_equal(np.sort(found["label"]), np.sort(labels))
    prepared("usps", str(cache), folder)


@pytest.mark.parametrize("place", ["nowhere", "~/nowhere", "file"])
def test_a_data_dir_that_is_not_a_folder_is_an_error_and_no_download(
    place, raw_files, cache, monkeypatch
):
    monkeypatch.setenv("HOME", str(cache))
    (cache / "file").touch()
    place = place if place.startswith("~") else str(cache / place)
    for _ in range(2):  # where nothing is prepared yet, and where it is
        for name in ("mnist", "usps", "mnist_m", "digits"):
            with pytest.raises(FileNotFoundError, match=f"`data_dir` must be.*Received: {place}$"):
                prepared(name, str(cache), place)
        prepared("usps", str(cache), str(raw_files))


def test_a_cache_dir_must_be_a_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="another `cache_dir`, .* where .*file is a file"):
        prepared("digits", str(tmp_path / "file"))
