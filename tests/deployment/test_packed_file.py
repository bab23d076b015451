"""What is no whole packed file is refused before anything is computed."""

import dataclasses
import hashlib
import json
import os

import numpy as np
import pytest

from dann.deployment import PackedFileError, load
from dann.deployment.packed_file import HEADER, decode, encode, write
from dann.deployment.packed_model import PackedModel
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
def test_errors_say_what_is_wrong_with_a_file(change, message, tmp_path):
    path = tmp_path / "model.dann"
    path.write_bytes(change(encode(program())))
    with pytest.raises(PackedFileError, match=message):
        load(path)


def pooled(**changes):
    """A program of a float convolution, a pooling and a threshold, each with its arrays."""
    window = {"size": [2, 2], "strides": [1, 1], "dilation": [1, 1], "pads": [[0, 1], [0, 1]]}
    conv = {"input_shape": [3, 3, 2], **window, "groups": 1, "pad_value": 0.0, "fan_in": 8}
    steps = {
        "input": Step("input", "input", (), (3, 3, 2), "float"),
        "conv": Step(
            "conv",
            "conv",
            (0,),
            (3, 3, 5),
            "float",
            conv,
            {"kernel": np.ones((2, 2, 2, 5), "<f4"), "bias": np.ones(5, "<f4")},
        ),
        "pool": Step(
            "max_pool", "pool", (1,), (3, 3, 5), "float", conv | {"input_shape": [3, 3, 5]}
        ),
        "flat": Step("reshape", "flat", (2,), (45,), "float", {"input_shape": [3, 3, 5]}),
        "sign": Step("sign", "last", (3,), (45,), "bits"),
        "dense": Step(
            "binary_dense",
            "last",
            (4,),
            (3,),
            "int",
            {"fan_in": 45},
            {"kernel_bits": np.ones((3, 1), "<u8")},
        ),
        "after": Step("affine", "norm", (5,), (3,), "float", {}, {"scale": np.ones(3, "<f4")}),
        "threshold": Step(
            "threshold",
            "norm",
            (5,),
            (3,),
            "bits",
            {},
            {"thresholds": np.ones(3, "<i4"), "flips": np.ones(1, "<u8")},
        ),
        "signs": Step("signs", "norm", (7,), (3,), "float"),
        "sum": Step("add", "sum", (6, 8), (3,), "float"),
        "squashed": Step("activation", "squashed", (9,), (3,), "float", {"function": "tanh"}),
    }
    for name, change in changes.items():
        step = steps[name]
        for field in ("attributes", "arrays"):
            if field in change:
                merged = {**getattr(step, field), **change[field]}
                kept = {key: value for key, value in merged.items() if value is not None}
                change = {**change, field: kept}
        steps[name] = dataclasses.replace(step, **change)
    return Program(list(steps.values()))


def test_steps_that_fit_together_are_run():
    again = decode(encode(pooled()))
    assert PackedModel(again, "numpy").predict(np.ones((2, 3, 3, 2))).shape == (2, 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"conv": {"attributes": {"fan_in": 9}}}, "fan_in=8"),
        ({"conv": {"attributes": {"fan_in": 8.0}}}, "fan_in=8"),
        ({"conv": {"attributes": {"input_shape": [3.0, 3, 2]}}}, "input_shape="),
        ({"conv": {"attributes": {"groups": True}}}, "groups that divide 2 channels"),
        ({"conv": {"attributes": {"dilation": [2**63, 1]}}}, "from 1 on for dilation"),
        ({"flat": {"shape": (10**30,)}}, "shapes of whole numbers"),
        ({"flat": {"shape": (0,)}}, "whole numbers from 1 on"),
        ({"flat": {"shape": (2**15, 2**14)}}, r"at most 2\*\*28 values"),
        (
            {"dense": {"arrays": {"kernel_bits": np.full((3, 1), 2**45, "<u8")}}},
            "zeros after the 45 bits of each row of kernel_bits",
        ),
        (
            {"threshold": {"arrays": {"flips": np.full(1, 8, "<u8")}}},
            "zeros after the 3 bits of each row of flips",
        ),
        ({"conv": {"attributes": {"size": None}}}, "2 whole numbers from 1 on for size"),
        ({"conv": {"attributes": {"size": [2, 2.0]}}}, "whole numbers from 1 on for size"),
        ({"conv": {"attributes": {"strides": [0, 1]}}}, "whole numbers from 1 on for strides"),
        ({"conv": {"attributes": {"dilation": [-5, 1]}}}, "from 1 on for dilation"),
        ({"conv": {"attributes": {"dilation": [9, 1]}}}, "a window that fits"),
        ({"conv": {"attributes": {"pads": [[0, 9**9], [0, 1]]}}}, "no wider than the window"),
        ({"conv": {"attributes": {"pads": [[0, 1]]}}}, "pads before and after each of 2"),
        ({"conv": {"attributes": {"groups": 3}}}, "groups that divide 2 channels"),
        ({"conv": {"attributes": {"groups": 2, "fan_in": 4}}}, "kernel of shape"),
        ({"conv": {"attributes": {"pad_value": 0.5}}}, "a pad_value of -1, 0 or 1"),
        ({"conv": {"attributes": {"input_shape": [4, 3, 2]}}}, "input_shape="),
        ({"conv": {"arrays": {"kernel": None}}}, "one kernel"),
        ({"conv": {"arrays": {"kernel": np.ones((1, 1, 2, 5), "<f4")}}}, "kernel of shape"),
        ({"conv": {"arrays": {"bias": np.ones(4, "<f4")}}}, "bias of shape"),
        ({"conv": {"kind": "int"}}, "an output of .* and kind float"),
        ({"conv": {"shape": (3, 3, 6)}}, r"an output of shape \(3, 3, 5\)"),
        ({"conv": {"shape": (3, 3, -5)}}, "shapes of whole numbers"),
        ({"conv": {"shape": "abc"}}, "shapes of whole numbers"),
        ({"pool": {"kind": "int"}}, "kind float"),
        ({"flat": {"shape": (46,)}}, "as many values as its input"),
        ({"dense": {"inputs": (3,)}}, "an input of kind bits"),
        ({"dense": {"arrays": {"kernel_bits": np.ones((3, 2), "<u8")}}}, "kernel_bits of shape"),
        ({"dense": {"arrays": {"kernel_bits": np.ones((800, 1), "<u8")}}}, "an output of shape"),
        ({"after": {"arrays": {"scale": np.ones(2, "<f4")}}}, "scale of shape"),
        ({"threshold": {"arrays": {"thresholds": np.ones(1, "<i4")}}}, "thresholds of shape"),
        ({"threshold": {"arrays": {"flips": None}}}, "thresholds and flips"),
        ({"threshold": {"inputs": (6,)}}, "an input of kind int"),
        ({"signs": {"inputs": (6,)}}, "an input of kind bits"),
        ({"sum": {"inputs": (6, 7)}}, "an input of kind float or int"),
        ({"sum": {"inputs": (6, 2)}}, "inputs of one shape"),
        ({"squashed": {"attributes": {"function": "exec"}}}, "one of the functions relu"),
        ({"squashed": {"inputs": (9, 8)}}, "1 inputs"),
        ({"squashed": {"op": "sign", "kind": "bits", "attributes": {}}}, "numbers as the last"),
    ],
)
def test_a_program_that_lies_is_refused_before_it_runs(changes, message):
    with pytest.raises(PackedFileError, match=f"not hold a program: .*should have .*{message}"):
        decode(encode(pooled(**changes)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offset": -8}, "an offset of -8"),
        ({"offset": 4}, "an offset of 4"),
        ({"offset": 1 << 40}, "within their 16 bytes"),
        ({"offset": 1e30}, "does not hold a program"),
        ({"offset": 8}, "does not hold a program"),
        ({"shape": [-1, 1]}, "no negative sizes"),
        ({"shape": [1 << 70, 1]}, "does not hold a program"),
        ({"shape": [800, 1]}, "does not hold a program"),
        ({"type": "O"}, "does not hold a program"),
        ({"type": "<f8"}, "Received: kernel_bits of <f8"),
    ],
)
def test_arrays_that_are_not_in_the_file_are_refused(change, message):
    data = encode(program())
    size = int.from_bytes(data[12:16], "little")
    directory = json.loads(data[64 : 64 + size])
    directory["steps"][2]["arrays"]["kernel_bits"].update(change)
    forged = forged_file(json.dumps(directory).encode(), data[64 + size :])
    with pytest.raises(PackedFileError, match=message):
        decode(forged)


def forged_file(directory, arrays):
    """A file of another directory, whose lengths and digest fit."""
    size = 64 + len(directory) + len(arrays)
    lengths = len(directory).to_bytes(4, "little") + size.to_bytes(8, "little")
    head = b"DANNBITS" + (1).to_bytes(4, "little") + lengths + bytes(8 + 32)
    return with_digest(head + directory + arrays)


@pytest.mark.parametrize(
    "directory", [b"[" * 100_000, b"{}", b'{"steps": [3]}', b'{"steps": []}', b"\xff", b"1" * 9_999]
)
def test_a_path_that_is_not_a_directory_is_refused(directory):
    with pytest.raises(PackedFileError, match="does not hold a program"):
        decode(forged_file(directory, b""))


def test_arrays_begin_at_whole_words_and_the_file_is_for_all_to_read(tmp_path):
    before = os.umask(0o022)
    try:
        write(pooled(), tmp_path / "model.dann")
    finally:
        os.umask(before)
    assert (tmp_path / "model.dann").stat().st_mode & 0o777 == 0o644
    data = (tmp_path / "model.dann").read_bytes()
    size = int.from_bytes(data[12:16], "little")
    steps = json.loads(data[64 : 64 + size])["steps"]
    offsets = [place["offset"] for step in steps for place in step.get("arrays", {}).values()]
    assert (len(data) % 8, size % 8) == (0, 0)
    assert offsets == [0, 160, 184, 208, 224, 240]  # a bias of 20 bytes takes 24


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
