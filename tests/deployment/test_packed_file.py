"""The layout of packed files, and what is refused."""

import hashlib
import importlib.util
import json
import pathlib
import shutil
import struct
import sys

import numpy as np
import pytest

from dann.deployment import runtime
from dann.deployment.packing import encode, pack_bits
from dann.deployment.runtime import Step, load, unpack_bits


def program():
    kernel = {"kernel": np.array([[1, -1], [-1, 1], [1, -1]], "int8")}
    return [
        Step("input", "input", (), (3,)),
        Step("sign", "dense", (0,), (3,), kind="bits"),
        Step("binary_dense", "dense", (1,), (2,), {"fan_in": 3}, kernel, "int"),
    ]


def test_the_layout_is_the_documented_one():
    data = encode(program())
    assert data[:8] == b"DANNBITS"
    version, directory, size = struct.unpack("<IIQ", data[8:24])
    assert (version, size, data[24:32]) == (1, len(data), bytes(8))
    assert data[32:64] == hashlib.sha256(data[:32] + bytes(32) + data[64:]).digest()
    place = json.loads(data[64 : 64 + directory])["steps"][2]["arrays"]["kernel_bits"]
    assert place == {"type": "<u8", "shape": [2, 1], "offset": 0}
    assert data[64 + directory :] == b"\5" + bytes(7) + b"\2" + bytes(7)


def test_what_is_no_whole_packed_file_is_refused(tmp_path):
    whole, path = encode(program()), tmp_path / "model.dann"
    places = [*range(64), *range(64, len(whole), 16)]
    changed = [whole[:p] + bytes([whole[p] ^ 1]) + whole[p + 1 :] for p in places]
    for data in (b"PK\3\4" + whole[4:], b"", whole[:40], whole[:-1], whole + b"\0", *changed):
        path.write_bytes(data)
        with pytest.raises(ValueError, match="model.dann"):
            load(path)


def test_the_reference_is_one_file_that_runs_elsewhere(tmp_path, monkeypatch):
    copy = shutil.copy(pathlib.Path(runtime.__file__), tmp_path / "runtime_elsewhere.py")
    (tmp_path / "model.dann").write_bytes(encode(program()))
    for name in list(sys.modules):
        if name.partition(".")[0] in ("dann", "keras", "tensorflow"):
            monkeypatch.setitem(sys.modules, name, None)
    spec = importlib.util.spec_from_file_location("runtime_elsewhere", copy)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "runtime_elsewhere", module)
    spec.loader.exec_module(module)
    assert module.load(tmp_path / "model.dann").predict([[1, -1, 1]]).tolist() == [[3.0, -3.0]]


@pytest.mark.parametrize("size", [1, 63, 64, 65, 130])
def test_bits_come_back_and_fill_up_with_zeros(size):
    positive = np.random.default_rng(size).random((3, size)) < 0.5
    words = pack_bits(positive)
    np.testing.assert_array_equal(unpack_bits(words, size), positive)
    whole = np.array([[int(word) >> bit & 1 for word in row for bit in range(64)] for row in words])
    np.testing.assert_array_equal(whole, np.pad(positive, [(0, 0), (0, -size % 64)]))
