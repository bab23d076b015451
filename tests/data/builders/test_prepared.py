from typing import Any

import numpy as np
import pytest
import tensorflow_datasets as tfds

from dann.data.builders.mnist_files import find_mnist, read_mnist
from dann.data.builders.prepared import prepared


@pytest.fixture
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("name", ["usps", "mnist_m"])
def test_a_prepared_set_needs_no_raw_files(name, raw_files, cache, tmp_path_factory):
    made = prepared(name, str(cache), str(raw_files))
    for folder in (None, str(tmp_path_factory.mktemp("empty"))):
        assert prepared(name, str(cache), folder).data_path == made.data_path


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
def test_a_data_dir_that_is_not_a_folder_is_an_error_and_no_download(place, cache, monkeypatch):
    monkeypatch.setenv("HOME", str(cache))
    (cache / "file").touch()
    place = place if place.startswith("~") else str(cache / place)
    for name in ("mnist", "usps", "digits"):
        with pytest.raises(FileNotFoundError, match=f"`data_dir` must be.*Received: {place}$"):
            prepared(name, str(cache), place)
