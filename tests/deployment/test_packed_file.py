"""The layout of packed files, and files that are not read."""

import contextlib
import hashlib
import importlib.util
import json
import pathlib
import shutil
import struct
import sys

import numpy as np
import pytest

from dann.deployment import c_file, runtime
from dann.deployment.packing import encode, pack_bits
from dann.deployment.runtime import HEADER, MAGIC, Step, compute_digest, load, unpack_bits


def make_program():
    kernel = {"kernel": np.array([[1, -1], [-1, 1], [1, -1]], "int8")}
    return [
        Step("input", "input", (), (3,)),
        Step("sign", "dense", (0,), (3,), kind="bits"),
        Step("binary_dense", "dense", (1,), (2,), {"fan_in": 3}, kernel, "int"),
    ]


def test_layout_matches_documentation():
    data = encode(make_program())
    assert data[:8] == b"DANNBITS"
    version, directory, size = struct.unpack("<IIQ", data[8:24])
    assert (version, size, data[24:32]) == (1, len(data), bytes(8))
    assert data[32:64] == hashlib.sha256(data[:32] + bytes(32) + data[64:]).digest()
    reference = json.loads(data[64 : 64 + directory])["steps"][2]["arrays"]["kernel_bits"]
    assert reference == {"type": "<u8", "shape": [2, 1], "offset": 0}
    assert data[64 + directory :] == b"\5" + bytes(7) + b"\2" + bytes(7)


def test_damaged_file_is_refused(tmp_path):
    valid, path = encode(make_program()), tmp_path / "model.dann"
    positions = [*range(64), *range(64, len(valid), 16)]
    flipped = [valid[:p] + bytes([valid[p] ^ 1]) + valid[p + 1 :] for p in positions]
    for data in (b"PK\3\4" + valid[4:], b"", valid[:40], valid[:-1], valid + b"\0", *flipped):
        path.write_bytes(data)
        with pytest.raises(ValueError, match="model.dann"):
            load(path)


ONE_LINE = r"^Expected [^\n]*\. Received: [^\n]*$"
FORGERIES = {  # statements about the steps of a directory
    "no steps": lambda steps: steps.clear(),
    "no operation": lambda steps: steps[1].pop("op"),
    "no kernel": lambda steps: steps[2]["arrays"].clear(),
    "no fan-in": lambda steps: steps[2]["attributes"].clear(),
    "array type": lambda steps: steps[2]["arrays"]["kernel_bits"].update(type="x"),
    "array offset": lambda steps: steps[2]["arrays"]["kernel_bits"].update(offset=10**9),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_forged_program_raises_one_line(forge, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    data = encode(make_program())
    end = 64 + HEADER.unpack_from(data)[2]
    steps = json.loads(data[64:end])["steps"]
    forge(steps)
    directory = json.dumps({"steps": steps}).encode()
    size = len(data) - end + len(directory) + 64
    payload = directory + data[end:]
    header = HEADER.pack(MAGIC, 1, len(directory), size, b"")
    digest = compute_digest(header + payload)
    (path := tmp_path / "model.dann").write_bytes(header[:32] + digest + payload)
    with pytest.raises(ValueError, match=ONE_LINE):
        c_file.load(path)
    with pytest.raises(ValueError, match=ONE_LINE):
        load(path).predict(np.zeros((1, 3)))


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"op": "_close"},
        *({"inputs": [1]}, {"shape": [30]}, {"shape": ["3; exit(1)"]}),
        {"op": "reshape", "shape": [5]},
        {"op": "activation", "attributes": {"function": "exit"}},
        {"op": "affine", "arrays": {"scale": np.ones(9, "<f4")}},
        {"op": "take", "arrays": {"starts": np.array([2], "<u4")}},
        {"op": "concatenate", "inputs": [0, 0], "shape": [7]},
        {"attributes": {"groups": 3}},
        {"attributes": {"strides": ["1}; exit(1)", 1]}},
    ],
    ids=str,
)
def test_contradictory_program_is_not_compiled(changes, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    step = {"op": "dense", "layer": "one", "inputs": [0], "shape": [3]}
    step |= {"attributes": {"fan_in": 4}, "arrays": {"kernel": np.ones((4, 3), "<f4")}}
    program = [Step("input", "input", (), (4,)), Step(**(step | changes))]
    (tmp_path / "model.dann").write_bytes(encode(program))
    with pytest.raises(ValueError, match=ONE_LINE) if changes else contextlib.nullcontext():
        c_file.load(tmp_path / "model.dann")


def test_runtime_is_one_file_without_imports(tmp_path, monkeypatch):
    copy = shutil.copy(pathlib.Path(runtime.__file__), tmp_path / "runtime_elsewhere.py")
    (tmp_path / "model.dann").write_bytes(encode(make_program()))
    for name in list(sys.modules):
        if name.partition(".")[0] in ("dann", "keras", "tensorflow"):
            monkeypatch.setitem(sys.modules, name, None)
    spec = importlib.util.spec_from_file_location("runtime_elsewhere", copy)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "runtime_elsewhere", module)
    spec.loader.exec_module(module)
    assert module.load(tmp_path / "model.dann").predict([[1, -1, 1]]).tolist() == [[3.0, -3.0]]


@pytest.mark.parametrize("size", [1, 63, 64, 65, 130])
def test_bits_round_trip_with_zero_padding(size):
    positive = np.random.default_rng(size).random((3, size)) < 0.5
    words = pack_bits(positive)
    np.testing.assert_array_equal(unpack_bits(words, size), positive)
    bits = np.array([[int(word) >> bit & 1 for word in row for bit in range(64)] for row in words])
    np.testing.assert_array_equal(bits, np.pad(positive, [(0, 0), (0, -size % 64)]))
