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
WORD = 64


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
    """Returns the function of a program from a batch to its logits, by NumPy."""
    functions = [(OPERATIONS[step.op](step), step.inputs) for step in steps[1:]]

    def run(batch):
        values = [batch]
        for function, inputs in functions:
            values.append(function(*(values[number] for number in inputs)))
        return values[-1]

    return run


def pack_bits(positive: np.ndarray) -> np.ndarray:
    """Packs booleans `(..., size)` along the last axis into `uint64` words `(..., words)`.

    Bit `i % 64` of word `i // 64`, counted from the least significant, is set where element `i` is
    true. A set bit stands for +1, another for -1. The unused bits of the last word are 0.
    """
    octets = np.packbits(positive, axis=-1, bitorder="little")
    rest = -octets.shape[-1] % (WORD // 8)
    octets = np.pad(octets, [(0, 0)] * (octets.ndim - 1) + [(0, rest)])
    return np.ascontiguousarray(octets).view("<u8").astype("uint64", copy=False)


def unpack_bits(words: np.ndarray, size: int) -> np.ndarray:
    """Returns the booleans `(..., size)` that `pack_bits` packed."""
    octets = np.ascontiguousarray(words, "<u8").view("uint8")
    return np.unpackbits(octets, axis=-1, count=size, bitorder="little").view(bool)


def unpack_signs(words: np.ndarray, size: int) -> np.ndarray:
    """Returns the signs that bits stand for, `(..., size)` of `float32`."""
    return np.where(unpack_bits(words, size), np.float32(1), np.float32(-1))


def count_bits(words: np.ndarray) -> np.ndarray:
    """Returns how many bits of each word are set."""
    if hasattr(np, "bitwise_count"):
        return np.bitwise_count(words)
    octets = np.ascontiguousarray(words)[..., None].view("uint8")  # NumPy 1
    return np.unpackbits(octets, axis=-1).sum(axis=-1, dtype="uint8")


def _floats(values):
    return values.astype("float32", copy=False)


def _affine(step):
    scale, offset = (step.arrays.get(name) for name in ("scale", "offset"))

    def run(values):
        values = _floats(values)  # rounds twice, as the model does
        values = values if scale is None else values * scale
        return values if offset is None else values + offset

    return run


def _prelu(step):
    slopes = step.arrays["slopes"]
    return lambda values: np.where(values > 0, _floats(values), _floats(values) * slopes)


def _sigmoid(values):
    shrunk = np.exp(-np.abs(values))
    return np.where(values >= 0, 1 / (1 + shrunk), shrunk / (1 + shrunk))


def _softmax(values):
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


FUNCTIONS = {
    "relu": lambda values: np.maximum(values, np.float32(0)),
    "sigmoid": _sigmoid,
    "softmax": _softmax,
    "tanh": np.tanh,
}


def _activation(step):
    function = FUNCTIONS[step.attributes["function"]]
    return lambda values: _floats(function(_floats(values)))


def _products(rows, kernel, size):
    """Sums of products of signs: rows `(n, words)` by kernel `(units, words)` to `(n, units)`.

    The sum of `size` products is `size - 2 d`, where `d` bits differ.
    """
    sums = np.empty((len(rows), len(kernel)), "int32")
    for row, out in zip(rows, sums, strict=True):
        out[:] = size - 2 * count_bits(row ^ kernel).sum(axis=-1, dtype="int32")
    return sums


def _binary_dense(step):
    kernel, size = step.arrays["kernel_bits"], step.attributes["fan_in"]

    def run(bits):
        sums = _products(bits.reshape(-1, bits.shape[-1]), kernel, size)
        return sums.reshape(-1, *step.shape)

    return run


def _binary_conv(step):
    attributes = step.attributes
    channels, taps = attributes["input_shape"][-1], math.prod(attributes["size"])
    kernel = unpack_bits(step.arrays["kernel_bits"], taps * channels)
    kernel = kernel.reshape(-1, taps, channels)
    rows = pack_bits(kernel).reshape(len(kernel), -1)
    border = pack_bits(np.full(channels, attributes["pad_value"] > 0))
    correction = 0 if attributes["pad_value"] else _sums_of_padding(kernel, attributes)

    def run(bits):
        view = windows(padded(bits, attributes["pads"], border), attributes)
        sums = _products(view.reshape(-1, rows.shape[-1]), rows, taps * channels)
        return sums.reshape(-1, *step.shape) + np.int32(correction)

    return run


def _sums_of_padding(kernel, attributes):
    """What to add to the sums where padding is 0, because its bits stand for -1."""
    inside = np.ones((1, *attributes["input_shape"][:-1], 1), bool)
    outside = ~windows(padded(inside, attributes["pads"], False), attributes)
    outside = outside.reshape(*outside.shape[1 : inside.ndim - 1], -1)  # (*outputs, taps)
    of_taps = np.where(kernel, 1, -1).sum(axis=-1).T  # (taps, units)
    return outside.astype("int32") @ of_taps


def _kernel(step, inputs):
    """A kernel `(inputs, units)` of floats, from bits or from floats."""
    if "kernel" in step.arrays:
        return step.arrays["kernel"].reshape(inputs, -1)
    return unpack_signs(step.arrays["kernel_bits"], inputs).T


def _dense(step):
    kernel, bias = _kernel(step, step.attributes["fan_in"]), step.arrays.get("bias", 0)
    return lambda values: _floats(_floats(values) @ kernel + bias)


def _conv(step):
    attributes, groups = step.attributes, step.attributes["groups"]
    taps = math.prod(attributes["size"])
    channels = attributes["input_shape"][-1] // groups
    kernel = _kernel(step, taps * channels).reshape(taps, channels, groups, -1)
    kernel = kernel.transpose(2, 0, 1, 3).reshape(groups, taps * channels, -1)
    bias = step.arrays.get("bias", 0)

    def run(values):
        images = padded(_floats(values), attributes["pads"], attributes["pad_value"])
        view = windows(images, attributes).reshape(-1, taps, groups, channels)
        view = view.transpose(2, 0, 1, 3).reshape(groups, -1, taps * channels)
        outputs = (view @ kernel).transpose(1, 0, 2).reshape(-1, *step.shape) + bias
        return outputs.astype("int32" if step.kind == "int" else "float32", copy=False)

    return run


def _sign(step):
    return lambda values: pack_bits(values >= 0)


def _threshold(step):
    thresholds, flips = step.arrays["thresholds"], step.arrays["flips"]
    return lambda sums: pack_bits(sums >= thresholds) ^ flips


def _signs(step):
    return lambda bits: unpack_signs(bits, step.shape[-1])


def _max_pool(step):
    combine = np.bitwise_or if step.kind == "bits" else np.maximum
    # Below every value: words are unsigned, and no sum reaches the lowest int32.
    lowest = {"float": -np.inf, "int": np.iinfo("int32").min, "bits": 0}[step.kind]
    return lambda images: _pooled(step, images, combine, lowest)


def _average_pool(step):
    ones = np.ones((1, *step.attributes["input_shape"][:-1], 1), "float32")
    counts = _pooled(step, ones, np.add, 0)
    return lambda images: _pooled(step, _floats(images), np.add, 0) / counts


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
    """Images `(batch, *spatial, channels)` with a border of one value, or one for each channel."""
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


def _reshape(step):
    size = step.attributes["input_shape"][-1]
    if step.kind != "bits":
        return lambda values: values.reshape(-1, *step.shape)
    return lambda bits: pack_bits(unpack_bits(bits, size).reshape(-1, *step.shape))


def _add(step):
    return lambda first, *others: sum(map(_floats, others), start=_floats(first))


OPERATIONS: Mapping[str, Callable[[Step], Callable]] = {
    "activation": _activation,
    "add": _add,
    "affine": _affine,
    "average_pool": _average_pool,
    "binary_conv": _binary_conv,
    "binary_dense": _binary_dense,
    "conv": _conv,
    "dense": _dense,
    "max_pool": _max_pool,
    "prelu": _prelu,
    "reshape": _reshape,
    "sign": _sign,
    "signs": _signs,
    "threshold": _threshold,
}
