"""Reads packed files and runs them with NumPy alone.

It imports nothing of its package: copy this one file to a machine that has NumPy, and
`from runtime import load`. `docs/deployment.md` has the format and what each operation computes.
"""

import dataclasses
import functools
import hashlib
import json
import math
import os
import pathlib
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

MAGIC = b"DANNBITS"
VERSION = 1
HEADER = struct.Struct("<8sIIQ8x32s")  # magic, version, bytes of directory, of file, SHA-256


@dataclasses.dataclass(frozen=True)
class Step:
    """One operation of a packed program, which is a list of steps; the last gives the logits.

    A kernel of signs is -1 and +1 in `int8` here, of shape `(inputs, units)`; flips are booleans.
    """

    op: str  # one of `OPERATIONS`, or "input"
    layer: str  # name of the Keras layer that it comes from
    inputs: Sequence[int]  # numbers of the steps whose outputs it takes
    shape: Sequence[int]  # of its output, without the batch
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    kind: str = "float"  # of its output: float32, or "int" (int32 sums), or "bits" (packed signs)


class PackedModel:
    """A packed classifier.

    Args:
        steps: The program.
        run: The function from a batch of `float32` to logits; by default NumPy's.
    """

    def __init__(self, steps: Sequence[Step], run: Callable | None = None):
        self.steps = steps
        self.input_shape = tuple(steps[0].shape)
        self.output_shape = tuple(steps[-1].shape)
        self._run = run or (lambda batch: outputs_of(steps, batch)[len(steps) - 1])

    def predict(self, inputs: Any, batch_size: int = 64) -> np.ndarray:
        """Returns the logits `(n, *output_shape)` of inputs, in `float32`.

        Args:
            inputs: Numbers `(n, *input_shape)`; `n` may be 0.
            batch_size: Inputs at a time. Defaults to `64`.
        """
        inputs = np.asarray(inputs, "float32", "C")
        if inputs.shape[1:] != self.input_shape:
            raise ValueError(f"Expected inputs (n, *{self.input_shape}). Received: {inputs.shape}")
        outputs = np.empty((len(inputs), *self.output_shape), "float32")
        for start in range(0, len(inputs), batch_size):
            outputs[start : start + batch_size] = self._run(inputs[start : start + batch_size])
        return outputs


def load(path: str | os.PathLike) -> PackedModel:
    """Returns the model of a packed file, which NumPy runs; see `read` for the errors."""
    return PackedModel(read(path)[0])


def read(path: str | os.PathLike) -> tuple[list[Step], bytes]:
    """Returns the program of a packed file, and its SHA-256.

    Raises:
        ValueError: If it is no packed file, or is of another version, damaged or cut short.
    """
    data = pathlib.Path(path).read_bytes()
    if data[:12] != HEADER.pack(MAGIC, VERSION, 0, 0, b"")[:12]:
        raise ValueError(f"Expected a packed file of version {VERSION}. Received: {path}")
    if data[32:64] != digest_of(data):
        raise ValueError(f"{path} is damaged or cut short; copy it again")
    start = HEADER.size + HEADER.unpack_from(data)[2]
    entries = json.loads(data[64:start])["steps"]
    return [_step(data[start:], **entry) for entry in entries], data[32:64]


def digest_of(data: bytes) -> bytes:
    """Returns the SHA-256 of a packed file with zeros in the place of the digest."""
    return hashlib.sha256(data[:32] + bytes(32) + data[64:]).digest()


def _step(content, arrays=None, **fields):
    found = {name: _array(content, **place) for name, place in (arrays or {}).items()}
    step = Step(**fields, arrays=found)
    if "kernel_bits" in found:
        positive = unpack_bits(found.pop("kernel_bits"), step.attributes["fan_in"])
        found["kernel"] = np.where(positive, np.int8(1), np.int8(-1)).T
    if "flips" in found:
        found["flips"] = unpack_bits(found["flips"], step.shape[-1])
    return step


def _array(content, type, shape, offset):
    return np.frombuffer(content, type, math.prod(shape), offset).reshape(shape)


def unpack_bits(words: np.ndarray, size: int) -> np.ndarray:
    """Returns the booleans `(..., size)` in 64-bit words `(..., words)`; true stands for +1.

    Bit `i % 64` of word `i // 64`, counted from the least significant, is element `i`.
    """
    octets = np.ascontiguousarray(words, "<u8").view("uint8")
    return np.unpackbits(octets, axis=-1, count=size, bitorder="little").view(bool)


def outputs_of(steps: Sequence[Step], batch: np.ndarray) -> dict[int, np.ndarray]:
    """Returns the output of every step by its number, for a batch.

    Signs are -1 and +1 in `float32`, and so are their sums, which it holds exactly.
    """
    values = {0: batch}
    for number, step in enumerate(steps[1:], start=1):
        values[number] = OPERATIONS[step.op](step, *(values[one] for one in step.inputs))
    return values


def _signs(positive):
    return np.where(positive, np.float32(1), np.float32(-1))


def _sigmoid(values):
    shrunk = np.exp(-np.abs(values))
    return np.where(values >= 0, 1, shrunk) / (1 + shrunk)


def _softmax(values):
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


FUNCTIONS = {
    "hard_tanh": lambda values: np.clip(values, -1, 1),
    "relu": lambda values: np.maximum(values, 0),
    "relu6": lambda values: np.clip(values, 0, 6),
    "sigmoid": _sigmoid,
    "softmax": _softmax,
    "tanh": np.tanh,
}


def _dense(step, values):
    kernel = step.arrays["kernel"].astype("float32")
    return values @ kernel + step.arrays.get("bias", 0)


def _conv(step, images):
    kernel, groups = step.arrays["kernel"].astype("float32"), step.attributes["groups"]
    taken = _windows(step, images, step.attributes["pad_value"])
    taps, channels = taken.shape[-2:]
    taken = taken.reshape(-1, taps, groups, channels // groups).transpose(2, 0, 1, 3)
    kernel = kernel.reshape(-1, groups, kernel.shape[-1] // groups).transpose(1, 0, 2)
    products = taken.reshape(groups, -1, kernel.shape[1]) @ kernel
    return products.transpose(1, 0, 2).reshape(-1, *step.shape) + step.arrays.get("bias", 0)


def _average_pool(step, images):
    counts = _windows(step, np.ones_like(images[:1]), 0).sum(axis=-2)
    return sum(np.moveaxis(_windows(step, images, 0), -2, 0)) / counts


def _windows(step, images, border):
    """The windows `(batch, *outputs, taps, channels)` of images with a border."""
    names = ("size", "dilation", "strides", "pads")
    size, dilation, strides, pads = (step.attributes[name] for name in names)
    images = np.pad(images, [(0, 0), *pads, (0, 0)], constant_values=border)
    reach = [(taps - 1) * rate + 1 for taps, rate in zip(size, dilation, strict=True)]
    view = sliding_window_view(images, reach, tuple(range(1, images.ndim - 1)))
    between = [slice(None, None, stride) for stride in strides]
    inside = [slice(None, None, rate) for rate in dilation]
    view = np.moveaxis(view[(slice(None), *between, slice(None), *inside)], len(size) + 1, -1)
    return view.reshape(*view.shape[: len(size) + 1], -1, view.shape[-1])


# Each takes its step and the outputs of the steps that it reads.
OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "activation": lambda step, values: FUNCTIONS[step.attributes["function"]](values),
    "add": lambda step, *values: functools.reduce(np.add, values),
    # It rounds twice, as the model does.
    "affine": lambda step, x: x * step.arrays.get("scale", 1) + step.arrays.get("offset", 0),
    "average_pool": _average_pool,
    "binary_conv": _conv,
    "binary_dense": _dense,
    "concatenate": lambda step, *parts: np.concatenate(parts, axis=-1),
    "conv": _conv,
    "dense": _dense,
    "max_pool": lambda step, images: _windows(step, images, -np.inf).max(axis=-2),
    "multiply": lambda step, *values: functools.reduce(np.multiply, values),
    "prelu": lambda step, values: np.where(values > 0, values, values * step.arrays["slopes"]),
    "reshape": lambda step, values: values.reshape(-1, *step.shape),
    "sign": lambda step, values: _signs(values >= 0),
    "signs": lambda step, signs: signs,
    "threshold": lambda step, x: _signs((x >= step.arrays["thresholds"]) != step.arrays["flips"]),
}
