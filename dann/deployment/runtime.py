"""Reads packed files and runs them with NumPy.

This file imports nothing else from its package. On a machine that has only NumPy, copy this file
and write `from runtime import load`. `docs/deployment.md` documents the format and the operations.
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
HEADER = struct.Struct("<8sIIQ8x32s")  # magic, version, directory size, file size, SHA-256


@dataclasses.dataclass(frozen=True)
class Step:
    """One operation of a packed program, a list of steps of which the last computes the logits.

    In memory, a kernel of signs is -1 and +1 in `int8`, of shape `(inputs, units)`, and `flips` are
    booleans. In a file, both are bits.
    """

    op: str  # one of `OPERATIONS`, or "input"
    layer: str  # name of the Keras layer that added the step
    inputs: Sequence[int]  # numbers of the steps whose outputs it reads
    shape: Sequence[int]  # of its output, without the batch
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    kind: str = "float"  # of its output: "float" (float32), "int" (sums) or "bits" (signs)


class PackedModel:
    """A packed classifier.

    Args:
        steps: The program.
        run: Function that maps a batch of `float32` to logits. Defaults to NumPy's operations.
    """

    def __init__(self, steps: Sequence[Step], run: Callable | None = None):
        self.steps = steps
        self.input_shape = tuple(steps[0].shape)
        self.output_shape = tuple(steps[-1].shape)
        self._run = run or (lambda batch: compute_outputs(steps, batch)[len(steps) - 1])

    def predict(self, inputs: Any, batch_size: int = 64) -> np.ndarray:
        """Returns the logits of inputs, `(n, *output_shape)` in `float32`.

        Args:
            inputs: Numbers `(n, *input_shape)`; `n` may be 0.
            batch_size: Number of inputs that are computed at once. Defaults to `64`.

        Raises:
            ValueError: If the inputs have another shape.
        """
        inputs = np.asarray(inputs, "float32", "C")
        if inputs.shape[1:] != self.input_shape:
            raise ValueError(f"Expected inputs (n, *{self.input_shape}). Received: {inputs.shape}")
        outputs = np.empty((len(inputs), *self.output_shape), "float32")
        for start in range(0, len(inputs), batch_size):
            outputs[start : start + batch_size] = self._run(inputs[start : start + batch_size])
        return outputs


def load(path: str | os.PathLike) -> PackedModel:
    """Loads a packed file as a model that NumPy runs; raises the errors of `read`."""
    return PackedModel(read(path)[0])


def read(path: str | os.PathLike) -> tuple[list[Step], bytes]:
    """Returns the program of a packed file, and its SHA-256.

    Raises:
        ValueError: If the file is not a packed file, has another version, is damaged or truncated,
            or contains an invalid program. Some invalid programs raise it only when they run.
    """
    data = pathlib.Path(path).read_bytes()
    if data[:12] != HEADER.pack(MAGIC, VERSION, 0, 0, b"")[:12]:
        raise ValueError(f"Expected a packed file of version {VERSION}. Received: {path}")
    if data[32:64] != compute_digest(data):
        raise ValueError(
            f"Expected a complete packed file. Received: {path}, which is damaged or truncated. "
            "Copy it again"
        )
    start = HEADER.size + HEADER.unpack_from(data)[2]
    try:
        entries = json.loads(data[64:start])["steps"]
        steps = [_decode_step(data[start:], **entry) for entry in entries]
        PackedModel(steps)  # raises an error for shapes that are not sequences
    except Exception as error:  # an inconsistent program can raise any error
        raise ValueError(
            f"Expected a valid program. Received: {path} with {error!r}. Pack the classifier again"
        ) from error
    return steps, data[32:64]


def compute_digest(data: bytes) -> bytes:
    """Returns the SHA-256 of a packed file whose digest is replaced by zeros."""
    return hashlib.sha256(data[:32] + bytes(32) + data[64:]).digest()


def _decode_step(content, arrays=None, **fields):
    decoded = {name: _read_array(content, **entry) for name, entry in (arrays or {}).items()}
    step = Step(**fields, arrays=decoded)
    if "kernel_bits" in decoded:
        positive = unpack_bits(decoded.pop("kernel_bits"), step.attributes["fan_in"])
        decoded["kernel"] = np.where(positive, np.int8(1), np.int8(-1)).T
    if "flips" in decoded:
        decoded["flips"] = unpack_bits(decoded["flips"], step.shape[-1])
    return step


def _read_array(content, type, shape, offset):
    return np.frombuffer(content, type, math.prod(shape), offset).reshape(shape)


def unpack_bits(words: np.ndarray, size: int) -> np.ndarray:
    """Unpacks 64-bit words `(..., words)` to booleans `(..., size)`; true means +1.

    Element `i` is bit `i % 64` of word `i // 64`, counted from the least significant bit.
    """
    octets = np.ascontiguousarray(words, "<u8").view("uint8")
    return np.unpackbits(octets, axis=-1, count=size, bitorder="little").view(bool)


def compute_outputs(steps: Sequence[Step], batch: np.ndarray) -> dict[int, np.ndarray]:
    """Returns the outputs of all steps for a batch, by the number of the step.

    Signs are -1 and +1 in `float32`, and so are sums of signs, which `float32` represents exactly.

    Raises:
        ValueError: If an operation is unknown, or does not fit its inputs.
    """
    outputs = {0: batch}
    for number, step in enumerate(steps[1:], start=1):
        try:
            sources = [outputs[source] for source in step.inputs]
            outputs[number] = OPERATIONS[step.op](step, *sources)
        except Exception as error:
            raise ValueError(
                f"Expected a valid program. Received: step {number}, {step.op!r}, with {error!r}"
            ) from error
    return outputs


def _signs(positive):
    return np.where(positive, np.float32(1), np.float32(-1))


def _sigmoid(values):
    power = np.exp(-np.abs(values))  # at most 1, so it cannot overflow
    return np.where(values >= 0, 1, power) / (1 + power)


_erf = np.vectorize(math.erf, "f")  # NumPy has no error function


def _softmax(values):
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


_ROOT = np.float32((2 / np.pi) ** 0.5)
FUNCTIONS = {
    "elu": lambda values: np.where(values > 0, values, np.expm1(np.minimum(values, 0))),
    "gelu": lambda x: x * (0.5 + 0.5 * _erf(x * np.float32(0.5**0.5))),
    "gelu_by_tanh": lambda x: x * (0.5 + 0.5 * np.tanh(x * (_ROOT + _ROOT * 0.044715 * x * x))),
    "hard_sigmoid": lambda values: np.clip(values + 3, 0, 6) / 6,
    "hard_tanh": lambda values: np.clip(values, -1, 1),
    "relu": lambda values: np.maximum(values, 0),
    "relu6": lambda values: np.clip(values, 0, 6),
    "sigmoid": _sigmoid,
    "silu": lambda values: values * _sigmoid(values),
    "softmax": _softmax,
    "softplus": lambda values: np.logaddexp(values, 0),
    "tanh": np.tanh,
}


def _dense(step, values):
    return values @ step.arrays["kernel"].astype("float32") + step.arrays.get("bias", 0)


def _conv(step, images):
    kernel, groups = step.arrays["kernel"].astype("float32"), step.attributes["groups"]
    windows = _get_windows(step, images, step.attributes["pad_value"])
    taps, channels = windows.shape[-2:]
    # (groups, batch * places, taps, channels per group)
    windows = windows.reshape(-1, taps, groups, channels // groups).transpose(2, 0, 1, 3)
    # (groups, taps * channels per group, units per group)
    kernel = kernel.reshape(-1, groups, kernel.shape[-1] // groups).transpose(1, 0, 2)
    products = windows.reshape(groups, -1, kernel.shape[1]) @ kernel
    return products.transpose(1, 0, 2).reshape(-1, *step.shape) + step.arrays.get("bias", 0)


def _average_pool(step, images):
    # The border does not count, as in Keras.
    counts = _get_windows(step, np.ones_like(images[:1]), 0).sum(axis=-2)
    return sum(np.moveaxis(_get_windows(step, images, 0), -2, 0)) / counts


def _take(step, values):
    starts = step.arrays["starts"].astype("uint32").reshape(-1, 1)  # as in C
    positions = (starts + np.arange(step.shape[-1])).ravel()
    return values.reshape(len(values), -1)[:, positions].reshape(-1, *step.shape)


def _get_windows(step, images, border):
    """Returns the windows `(batch, *outputs, taps, channels)` of padded images."""
    names = ("size", "dilation", "strides", "pads")
    size, dilation, strides, pads = (step.attributes[name] for name in names)
    images = np.pad(images, [(0, 0), *pads, (0, 0)], constant_values=border)
    reach = [(taps - 1) * rate + 1 for taps, rate in zip(size, dilation, strict=True)]
    view = sliding_window_view(images, reach, tuple(range(1, images.ndim - 1)))
    positions = [slice(None, None, stride) for stride in strides]
    taps = [slice(None, None, rate) for rate in dilation]
    # (batch, *outputs, channels, *size) -> (batch, *outputs, *size, channels)
    view = np.moveaxis(view[(slice(None), *positions, slice(None), *taps)], len(size) + 1, -1)
    return view.reshape(*view.shape[: len(size) + 1], -1, view.shape[-1])


# Functions of a step and the outputs of the steps that it reads.
OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "activation": lambda step, values: FUNCTIONS[step.attributes["function"]](values),
    "add": lambda step, *values: functools.reduce(np.add, values),
    # Two operations that round separately, as in the model.
    "affine": lambda step, x: x * step.arrays.get("scale", 1) + step.arrays.get("offset", 0),
    "average_pool": _average_pool,
    "binary_conv": _conv,
    "binary_dense": _dense,
    "concatenate": lambda step, *parts: np.concatenate(parts, axis=-1),
    "conv": _conv,
    "dense": _dense,
    "divide": lambda step, values: values / step.arrays["divisors"],
    "max_pool": lambda step, images: _get_windows(step, images, -np.inf).max(axis=-2),
    "multiply": lambda step, *values: functools.reduce(np.multiply, values),
    "prelu": lambda step, values: np.where(values > 0, values, values * step.arrays["slopes"]),
    "reshape": lambda step, values: values.reshape(-1, *step.shape),
    "sign": lambda step, values: _signs(values >= 0),
    "signs": lambda step, signs: signs,
    "take": _take,
    "threshold": lambda step, x: _signs((x >= step.arrays["thresholds"]) != step.arrays["flips"]),
}
