"""Reads packed files and runs them with NumPy alone.

It imports nothing of its package: copy this one file to a machine that has NumPy, and
`from runtime import load`. `docs/deployment.md` has the format and what each operation computes.
"""

import dataclasses
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


class PackedFileError(ValueError):
    """The file cannot be loaded: not a packed file, of another version, damaged or cut short."""


@dataclasses.dataclass(frozen=True)
class Step:
    """One operation of a packed program, which is a list of steps; the last gives the logits."""

    op: str  # one of `OPERATIONS`, or "input"
    layer: str  # name of the Keras layer that it comes from
    inputs: Sequence[int]  # numbers of the steps whose outputs it takes
    shape: Sequence[int]  # of its output, without the batch
    kind: str  # of its output: "float" (float32), "int" (int32 sums) or "bits" (packed signs)
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)


def load(path: str | os.PathLike) -> "PackedModel":
    """Returns the model of a packed file, which NumPy runs; see `read` for the errors."""
    return PackedModel(read(path))


def read(path: str | os.PathLike) -> list[Step]:
    """Returns the program of a packed file.

    Raises:
        PackedFileError: If it is no packed file, or is of another version, damaged or cut short.
    """
    data = pathlib.Path(path).read_bytes()
    if len(data) < HEADER.size or data[: len(MAGIC)] != MAGIC:
        raise PackedFileError(
            f"Expected a file that `dann.deployment.pack` wrote. Received: {path}"
        )
    _, version, directory_size, size, digest = HEADER.unpack_from(data)
    if version != VERSION:
        raise PackedFileError(
            f"Expected a packed file of version {VERSION}; pack the classifier again. Received: "
            f"{path} of version {version}"
        )
    start = HEADER.size + directory_size
    if size != len(data) or digest != digest_of(data[: HEADER.size], data[HEADER.size :]):
        raise PackedFileError(f"{path} is damaged or cut short; copy it again")
    return [_step(data[start:], **entry) for entry in json.loads(data[64:start])["steps"]]


def digest_of(header: bytes, payload: bytes) -> bytes:
    """SHA-256 of a packed file with zeros in the place of the digest, which ends the header."""
    return hashlib.sha256(header[:-32] + bytes(32) + payload).digest()


def _step(content, arrays: Mapping[str, Mapping] | None = None, **fields):
    read = {name: _array(content, **place) for name, place in (arrays or {}).items()}
    return Step(**fields, arrays=read)


def _array(content, type, shape, offset):
    return np.frombuffer(content, type, math.prod(shape), offset).reshape(shape)


class PackedModel:
    """A packed classifier.

    Args:
        steps: The program.
        run: The function from a batch of `float32` to logits; by default NumPy's, `reference`.
    """

    def __init__(self, steps: Sequence[Step], run: Callable | None = None):
        self.steps = steps
        self.input_shape = tuple(steps[0].shape)
        self.output_shape = tuple(steps[-1].shape)
        self._run = run or reference(steps)

    def predict(self, inputs: Any, batch_size: int = 64) -> np.ndarray:
        """Returns the logits `(n, *output_shape)` of inputs, in `float32`.

        Args:
            inputs: Numbers `(n, *input_shape)`; `n` may be 0.
            batch_size: Inputs at a time. Defaults to `64`.
        """
        inputs = np.asarray(inputs, "float32", "C")
        if inputs.shape[1:] != self.input_shape:
            raise ValueError(
                f"Inputs must be of shape (n, *{self.input_shape}). Received: {inputs.shape}"
            )
        outputs = np.empty((len(inputs), *self.output_shape), "float32")
        for start in range(0, len(inputs), batch_size):
            outputs[start : start + batch_size] = self._run(inputs[start : start + batch_size])
        return outputs


def reference(steps: Sequence[Step]) -> Callable[[np.ndarray], np.ndarray]:
    """Returns the function of a program from a batch to its logits, by NumPy.

    Signs are -1 and +1 in `float32` here, and so are their sums, which it holds exactly.
    """
    functions = [(OPERATIONS[step.op](step), step.inputs) for step in steps[1:]]

    def run(batch):
        values = [batch]
        for function, inputs in functions:
            values.append(function(*(values[number] for number in inputs)))
        return values[-1]

    return run


def unpack_bits(words: np.ndarray, size: int) -> np.ndarray:
    """Returns the booleans `(..., size)` in 64-bit words `(..., words)`; true stands for +1.

    Bit `i % 64` of word `i // 64`, counted from the least significant, is element `i`.
    """
    octets = np.ascontiguousarray(words, "<u8").view("uint8")
    return np.unpackbits(octets, axis=-1, count=size, bitorder="little").view(bool)


def signs_of(positive: np.ndarray) -> np.ndarray:
    """Returns +1 where it is true, else -1, in `float32`."""
    return np.where(positive, np.float32(1), np.float32(-1))


def _affine(step):
    scale, offset = step.arrays.get("scale"), step.arrays.get("offset")

    def run(values):  # it rounds twice, as the model does
        values = values if scale is None else values * scale
        return values if offset is None else values + offset

    return run


def _prelu(step):
    slopes = step.arrays["slopes"]
    return lambda values: np.where(values > 0, values, values * slopes)


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


def _kernel(step, inputs):
    """A kernel `(inputs, units)`, from bits or from floats."""
    if "kernel" in step.arrays:
        return step.arrays["kernel"].reshape(inputs, -1)
    return signs_of(unpack_bits(step.arrays["kernel_bits"], inputs)).T


def _dense(step):
    kernel = _kernel(step, step.attributes["fan_in"])
    bias = step.arrays.get("bias", 0)
    return lambda values: values @ kernel + bias


def _conv(step):
    attributes, groups = step.attributes, step.attributes["groups"]
    taps, fan_in = math.prod(attributes["size"]), attributes["fan_in"]
    kernel = _kernel(step, fan_in).reshape(fan_in, groups, -1).transpose(1, 0, 2)
    bias = step.arrays.get("bias", 0)

    def run(values):
        images = padded(values, attributes["pads"], attributes["pad_value"])
        view = windows(images, attributes).reshape(-1, taps, groups, fan_in // taps)
        view = view.transpose(2, 0, 1, 3).reshape(groups, -1, fan_in)
        return (view @ kernel).transpose(1, 0, 2).reshape(-1, *step.shape) + bias

    return run


def _threshold(step):
    thresholds = step.arrays["thresholds"]
    flips = unpack_bits(step.arrays["flips"], step.shape[-1])
    return lambda sums: signs_of((sums >= thresholds) != flips)


def _max_pool(step):
    return lambda images: _pooled(step, images, np.maximum, -np.inf)


def _average_pool(step):
    ones = np.ones((1, *step.attributes["input_shape"][:-1], 1), "float32")
    counts = _pooled(step, ones, np.add, 0)
    return lambda images: _pooled(step, images, np.add, 0) / counts


def _pooled(step, images, combine, border):
    view = windows(padded(images, step.attributes["pads"], border), step.attributes)
    places = (slice(None),) * (images.ndim - 1)  # of batch and outputs
    # Tap by tap: several times faster than a reduction over short axes.
    first, *others = (view[places + tap] for tap in np.ndindex(*step.attributes["size"]))
    total = first.copy()
    for tap in others:
        combine(total, tap, out=total)
    return total


def padded(images: np.ndarray, pads: Sequence[Sequence[int]], values: Any) -> np.ndarray:
    """Images `(batch, *spatial, channels)` with a border of one value."""
    lengths = [length + sum(pad) for length, pad in zip(images.shape[1:], pads, strict=False)]
    whole = np.empty((len(images), *lengths, images.shape[-1]), images.dtype)
    whole[...] = values
    inner = [slice(pad[0], pad[0] + n) for n, pad in zip(images.shape[1:], pads, strict=False)]
    whole[(slice(None), *inner)] = images
    return whole


def windows(images: np.ndarray, attributes: Mapping[str, Any]) -> np.ndarray:
    """A view `(batch, *outputs, *size, channels)` of the windows of padded images."""
    size, dilation = attributes["size"], attributes["dilation"]
    reach = tuple((taps - 1) * rate + 1 for taps, rate in zip(size, dilation, strict=True))
    view = sliding_window_view(images, reach, tuple(range(1, images.ndim - 1)))
    between = [slice(None, None, stride) for stride in attributes["strides"]]
    inside = [slice(None, None, rate) for rate in dilation]
    view = view[(slice(None), *between, slice(None), *inside)]
    return np.moveaxis(view, len(size) + 1, -1)


OPERATIONS: Mapping[str, Callable[[Step], Callable]] = {
    "activation": lambda step: FUNCTIONS[step.attributes["function"]],
    "add": lambda step: lambda first, *others: sum(others, start=first),
    "affine": _affine,
    "average_pool": _average_pool,
    "binary_conv": _conv,
    "binary_dense": _dense,
    "concatenate": lambda step: lambda *parts: np.concatenate(parts, axis=-1),
    "conv": _conv,
    "dense": _dense,
    "max_pool": _max_pool,
    "prelu": _prelu,
    "reshape": lambda step: lambda values: values.reshape(-1, *step.shape),
    "sign": lambda step: lambda values: signs_of(values >= 0),
    "signs": lambda step: lambda signs: signs,
    "threshold": _threshold,
}
