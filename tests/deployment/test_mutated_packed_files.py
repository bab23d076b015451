"""Packed files with random damage: each is refused in one line, forged ones too."""

import json

import numpy as np
import pytest
from support.corruptions import inflate_digits, mutated
from support.packable_networks import residual, spread_statistics
from support.peak_memory import peak_memory

from dann.deployment import PackedFileError, pack
from dann.deployment.packed_file import _FIELDS, HEADER, MAGIC, VERSION, _digest, decode, encode
from dann.deployment.packed_model import PackedModel

INPUTS = np.ones((3, 8, 7, 2), "float32")
# Half of them are mutated as they are, and half get a new digest.
COUNTS = [pytest.param(100, id="100"), pytest.param(5000, id="5000", marks=pytest.mark.slow)]


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    """A packed classifier with convolutions, shortcuts and padding."""
    model = spread_statistics(residual())
    path = tmp_path_factory.mktemp("packed") / "a.dann"
    pack(model, path)
    return path.read_bytes()


def forged(content, rng):
    """A mutation of the directory or of the arrays under a header that fits it."""
    size = _FIELDS.unpack_from(content)[2]
    directory, arrays = content[HEADER : HEADER + size], content[HEADER + size :]
    way = int(rng.integers(4))
    if way == 0:
        directory = mutated(directory, rng)
    elif way == 1:
        arrays = mutated(arrays, rng)
    elif way == 2:
        directory = inflate_digits(directory, rng)
    else:
        directory = swapped(directory, rng)
    payload = directory + arrays
    size = len(directory) + int(rng.integers(-8, 9)) * int(rng.integers(6) == 0)
    fields = (MAGIC, VERSION, max(size, 0), HEADER + len(payload))
    return _FIELDS.pack(*fields, _digest(_FIELDS.pack(*fields, bytes(32)), payload)) + payload


def swapped(directory, rng):
    """The directory with two of its values exchanged, of any steps and kinds."""
    tree = json.loads(directory)
    places = [(step, key) for step in tree["steps"] for key in step]
    first, second = (places[int(rng.integers(len(places)))] for _ in range(2))
    (a, key), (b, other) = first, second
    a[key], b[other] = b[other], a[key]
    return json.dumps(tree).encode()


def check_one_line(error):
    assert "a.dann" in str(error)
    assert len(str(error).splitlines()) == 1


@pytest.mark.parametrize("count", COUNTS)
def test_mutated_packed_files(content, count):
    rng = np.random.default_rng(6)
    read = 0
    PackedModel(decode(content)).predict(INPUTS)  # loads what it needs
    # Forged numbers overflow; Keras says nothing of that either.
    with peak_memory() as peak, np.errstate(all="ignore"):
        for number in range(count):
            data = (mutated, forged)[number % 2](content, rng)
            try:
                program = decode(data, "a.dann")
            except PackedFileError as error:
                check_one_line(error)
                continue
            found = PackedModel(program).predict(INPUTS[..., : program.steps[0].shape[-1]])
            assert number % 2 or data == content, "a mutation without a new digest was read"
            assert decode(encode(program)).steps[-1].shape == program.steps[-1].shape
            assert found.shape == (3, *program.steps[-1].shape)
            read += 1
        print(f"packed: {count} mutations, {count - read} refused, {read} read")
        print(f"packed: at most {peak():.0f} MB")
        assert peak() < 100
    assert count // 2 <= count - read
