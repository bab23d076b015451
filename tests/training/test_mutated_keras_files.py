"""`.keras` files with random damage: each is refused in one line, or loaded as it is."""

import contextlib
import io
import resource
import zipfile

import keras
import numpy as np
import pytest
from support.corruptions import mutated
from support.peak_memory import peak_memory

from dann.layers import BinaryDense, GradientReversal
from dann.training.keras_file import KerasFileError
from dann.training.run_directory import load_model

# How many mutations are tried: a few always, and the rest by `pytest -m slow`.
COUNTS = [pytest.param(30, id="30"), pytest.param(500, id="500", marks=pytest.mark.slow)]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The bytes of a file, and the weights in it."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(4, 3, activation="relu"),
            layers.Flatten(),
            GradientReversal(),
            BinaryDense(7),
            layers.BatchNormalization(),
            layers.Dense(3),
        ]
    )
    path = tmp_path_factory.mktemp("saved") / "a.keras"
    model.save(path)
    return path.read_bytes(), model.get_weights()


def damaged_inside(content, rng):
    """The archive with one damaged part, packed again so that all checksums fit."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {part.filename: archive.read(part) for part in archive.infolist()}
    chosen = sorted(parts)[int(rng.integers(len(parts)))]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, mutated(part, rng) if name == chosen else part)
    return packed.getvalue()


@contextlib.contextmanager
def little_address_space(size=1 << 31):
    """What asks for 2 GiB more than now gets an error, as under `ulimit -v`."""
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def load_all(path, content, damage, count):
    """Gives the model of each damaged file, or the refusal; prints how many there were."""
    rng = np.random.default_rng(7)
    refused = 0
    for _ in range(count):
        path.write_bytes(damage(content, rng))
        try:
            model = load_model(path, compile=False)
        except KerasFileError as error:
            refused += 1
            yield error
        else:
            yield model
    print(f"keras, {damage.__name__}: {count}, {refused} refused, {count - refused} loaded")


@pytest.mark.parametrize("count", COUNTS)
def test_damaged_files(saved, tmp_path, count):
    path = tmp_path / "a.keras"
    path.write_bytes(saved[0])
    load_model(path, compile=False)  # imports what it needs
    with peak_memory() as peak:
        for found in load_all(path, saved[0], mutated, count):
            if isinstance(found, KerasFileError):
                assert len(str(found).splitlines()) == 1
            else:
                for weights, expected in zip(found.get_weights(), saved[1], strict=True):
                    np.testing.assert_array_equal(weights, expected)
        print(f"keras: at most {peak():.0f} MB")
        assert peak() < 200


@pytest.mark.parametrize("count", COUNTS)
def test_files_that_were_packed_again_after_damage_inside(saved, tmp_path, count):
    """What is loaded is what the damaged parts say, so only refusals can be judged."""
    refused = 0
    with little_address_space():
        for found in load_all(tmp_path / "a.keras", saved[0], damaged_inside, count):
            if isinstance(found, KerasFileError):
                refused += 1
                assert len(str(found).splitlines()) == 1
    assert refused > count // 4
