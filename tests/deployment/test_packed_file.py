"""What is no whole packed file is refused before anything is computed."""

import hashlib
import json
import os

import numpy as np
import pytest

from dann.deployment import PackedFileError, load
from dann.deployment.packed_file import HEADER, decode, encode, write
from dann.deployment.program import Program, Step


def program():
    return Program(
        [
            Step("input", "input", (), (3,), "float"),
            Step("sign", "dense", (0,), (3,), "bits"),
            Step(
                "binary_dense",
                "dense",
                (1,),
                (2,),
                "int",
                {"fan_in": 3, "macs": 6},
                {"kernel_bits": np.array([[5], [2]], "<u8")},
            ),
        ]
    )


def with_digest(data):
    """A damaged file whose digest was made to fit."""
    digest = hashlib.sha256(data[:32] + bytes(32) + data[HEADER:]).digest()
    return data[:32] + digest + data[HEADER:]


def test_a_program_comes_back():
    again = decode(encode(program()))
    for step, other in zip(again.steps, program().steps, strict=True):
        assert (step.op, step.layer, tuple(step.inputs), tuple(step.shape), step.kind) == (
            other.op,
            other.layer,
            tuple(other.inputs),
            tuple(other.shape),
            other.kind,
        )
        assert step.attributes == other.attributes
        assert step.arrays.keys() == other.arrays.keys()
        for name, array in step.arrays.items():
            np.testing.assert_array_equal(array, other.arrays[name])


def test_the_layout_is_the_documented_one():
    data = encode(program())
    assert data[:8] == b"DANNBITS"
    version, directory, size = (
        int.from_bytes(data[begin:end], "little") for begin, end in ((8, 12), (12, 16), (16, 24))
    )
    assert (version, size, data[24:32]) == (1, len(data), bytes(8))
    assert data[32:64] == hashlib.sha256(data[:32] + bytes(32) + data[64:]).digest()
    steps = json.loads(data[64 : 64 + directory])["steps"]
    place = steps[2]["arrays"]["kernel_bits"]
    assert place == {"type": "<u8", "shape": [2, 1], "offset": 0}
    assert data[64 + directory :] == b"\5" + bytes(7) + b"\2" + bytes(7)


def test_a_change_of_any_byte_is_noticed():
    data = encode(program())
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        with pytest.raises(PackedFileError):
            decode(bytes(changed))


def test_a_file_cut_anywhere_or_continued_is_refused():
    data = encode(program())
    for size in range(len(data)):
        with pytest.raises(PackedFileError):
            decode(data[:size])
    with pytest.raises(PackedFileError, match="cut short or damaged"):
        decode(data + b"\0")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"PK\3\4" + data[4:], "Expected a file that .* wrote.*Received: .*PK"),
        (lambda data: b"", "Expected a file that"),
        (lambda data: data[:8] + b"\2" + data[9:], "version 1; .*of version 2"),
        (lambda data: data[:40], "cut short: 40 bytes"),
        (lambda data: data[:-1], "cut short or damaged"),
        (lambda data: data[:-1] + b"\1", "is damaged: .* SHA-256"),
        (lambda data: with_digest(data.replace(b'"sign"', b'"sigh"')), "hold a program: .*'sigh'"),
        (lambda data: with_digest(data.replace(b"[1]", b"[9]")), "steps before it.*of \\[9\\]"),
        (lambda data: with_digest(data.replace(b"[2,1]", b"[9,9]")), "does not hold a program"),
        (lambda data: with_digest(data.replace(b'{"steps', b'["steps')), "does not hold a program"),
    ],
)
def test_errors_tell_what_is_wrong_with_a_file(change, message, tmp_path):
    path = tmp_path / "model.dann"
    path.write_bytes(change(encode(program())))
    with pytest.raises(PackedFileError, match=message):
        load(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.dann")


def test_what_fails_on_the_way_leaves_the_old_file_alone(tmp_path, monkeypatch):
    path = tmp_path / "model.dann"
    path.write_bytes(b"old")

    def fail(*arguments):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="disk full"):
            write(program(), path)
    assert [file.name for file in tmp_path.iterdir()] == ["model.dann"]
    assert path.read_bytes() == b"old"
    write(program(), path)
    assert load(path, "numpy").predict(np.array([[1, -1, 1]])).tolist() == [[3.0, -3.0]]
