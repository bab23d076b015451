"""`.keras` files of strangers: refused in a line of ours before they take memory."""

import random
import zipfile

import keras
import numpy as np
import pytest

from dann.training.keras_file import KerasFileError, check_declared_size
from dann.training.run_directory import load_model


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The bytes of a small classifier's file, and its weights."""
    path = tmp_path_factory.mktemp("saved") / "a.keras"
    model = keras.Sequential([keras.Input((7,)), keras.layers.Dense(5)])
    model.save(path)
    return path.read_bytes(), model.get_weights()


@pytest.fixture
def path(tmp_path, saved):
    (tmp_path / "a.keras").write_bytes(saved[0])
    return tmp_path / "a.keras"


def replace_part(path, name, pieces, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path) as archive:
        parts = {part.filename: archive.read(part) for part in archive.infolist()}
    with zipfile.ZipFile(path, "w") as archive:
        for part, content in parts.items():
            if part != name:
                archive.writestr(part, content)
        part = zipfile.ZipInfo(name)
        part.compress_type = compression
        with archive.open(part, "w") as file:
            for piece in pieces:
                file.write(piece)


def test_a_whole_file_is_loaded(path, saved):
    for weights, expected in zip(load_model(path).get_weights(), saved[1], strict=True):
        np.testing.assert_array_equal(weights, expected)


def test_a_changed_weight_is_refused(path, saved):
    weights = saved[1][0].tobytes()
    place = saved[0].index(weights) + len(weights) // 2
    content = bytearray(saved[0])
    content[place] ^= 16
    path.write_bytes(content)
    with pytest.raises(KerasFileError, match=r"a.keras, in which model.weights.h5 is damaged"):
        load_model(path)


def test_a_network_that_is_larger_than_its_weights_is_refused_before_it_takes_memory(
    path, little_memory
):
    with zipfile.ZipFile(path) as archive:
        config = archive.read("config.json").decode()
    replace_part(path, "config.json", [config.replace('"units": 5', f'"units": {10**9}').encode()])
    with pytest.raises(KerasFileError, match=r"network of 32,000,000,000 bytes and weights of "):
        load_model(path)


def test_looking_at_a_network_draws_no_random_numbers(path):
    before = random.getstate()
    check_declared_size(path)
    assert random.getstate() == before


def test_looking_at_a_network_leaves_nothing_in_keras(path):
    name = int(keras.layers.Dense(2).name.rpartition("_")[2])
    check_declared_size(path)
    with keras.StatelessScope():  # its end initializes each variable that waits for it
        layer = keras.layers.Dense(2)
        layer.build((None, 3))
    assert layer.name == f"dense_{name + 1}"
    assert layer.kernel.numpy().shape == (3, 2)


@pytest.mark.parametrize("content", [b"", b"PK", b"text"], ids=str)
def test_something_else_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(
        KerasFileError, match=r"Received: .*a.keras, which is cut short, damaged or"
    ):
        load_model(path)


def test_an_archive_without_its_parts_is_refused(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", "{}")
    with pytest.raises(KerasFileError, match=r"must hold .* Received: .*a.keras with config.json"):
        load_model(path)


@pytest.mark.parametrize("name", ["config.json", "metadata.json"])
def test_a_huge_config_is_not_read(path, little_memory, name):
    replace_part(path, name, (b" " * 1_000_000 for _ in range(100)))
    message = rf"{name} of a .keras file may have 67,108,864 bytes.*MAX_CONFIG_BYTES.*100,000,000"
    with pytest.raises(KerasFileError, match=message):
        load_model(path)


def test_weights_that_are_a_zip_bomb_are_not_read(path, little_memory):
    replace_part(path, "model.weights.h5", (bytes(1_000_000) for _ in range(150)))
    with pytest.raises(KerasFileError, match=r"pack it again without compression.*of 150,\d"):
        load_model(path)


def test_what_keras_says_is_the_cause_and_not_the_message(path):
    replace_part(path, "config.json", [b'{"module": "os", "class_name": "system", "config": {}}'])
    with pytest.raises(KerasFileError, match=r"Expected a Keras model of classes that") as raised:
        load_model(path)
    assert raised.value.__cause__
