"""Translates a program into instructions, which one compiled function carries out."""

import functools
import hashlib
import math
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dann.deployment.bits import WORD, pack_bits, unpack_bits, words_for
from dann.deployment.engines.instructions import LANES, Instruction, Op
from dann.deployment.engines.numpy_engine import (
    float_kernel,
    padded,
    pooled,
    windows,
    zeros_in_padding,
)
from dann.deployment.program import KINDS, Program

_ALIGNED = 16  # values that fill at least a line of the cache
TYPES = {"float": "float32", "int": "int32", "bits": "uint64"}


class Value(NamedTuple):
    """What a step gives: where it starts in the memory of its kind, and its shape."""

    kind: str
    place: int
    shape: Sequence[int]

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return math.prod(self.shape[:-1])

    @property
    def size(self) -> int:
        """Values of a row, words for bits."""
        return words_for(self.shape[-1]) if self.kind == "bits" else self.shape[-1]


class Code:
    """The instructions of a program, its constants, and how much memory they need.

    Args:
        program: The program.

    Attributes:
        table: The instructions, a structured array with the fields of `Instruction` and one more.
        constants: Arrays of `float32`, `int32` and `uint64`.
        sizes: Length of each memory for one example, in the order of `KINDS`.
        output: The logits, a `Value`.
    """

    def __init__(self, program: Program):
        self._instructions = []
        self._arrays = {kind: [np.zeros(0, TYPES[kind])] for kind in KINDS}
        self._sizes = dict.fromkeys(KINDS, 0)
        self._in_floats = {}
        values = [self._room("float", program.input_shape)]
        for step in program.steps[1:]:
            given = (values[number] for number in step.inputs)
            values.append(getattr(self, f"_{step.op}")(step, *given))
        names = [*Instruction._fields, _fingerprint()]
        records = [(*instruction, 0) for instruction in self._instructions]
        self.table = np.array(records, [(name, "int64") for name in names])
        self.constants = tuple(_aligned(np.concatenate(self._arrays[kind])) for kind in KINDS)
        self.sizes = tuple(self._sizes[kind] for kind in KINDS)
        self.output = values[-1]

    def _room(self, kind, shape):
        value = Value(kind, self._sizes[kind], tuple(shape))
        self._sizes[kind] += value.rows * value.size
        return value

    def _constant(self, kind, array):
        """Keeps an array of the program and returns its place, or -1 if there is none."""
        if array is None:
            return -1
        arrays = self._arrays[kind]
        place = sum(map(len, arrays))
        flat = np.ravel(array).astype(TYPES[kind])
        arrays.append(np.pad(flat, (0, -len(flat) % _ALIGNED)))
        return place

    def _emit(self, op, given, kind, shape, **columns):
        """Adds an instruction, and returns what it gives."""
        value = self._room(kind, shape)
        sizes = {"rows": value.rows, "size": given.size, "units": shape[-1], **columns}
        self._instructions.append(Instruction(op, given.place, value.place, **sizes))
        return value

    def _floats(self, given):
        if given.kind == "float":
            return given
        if given not in self._in_floats:
            self._in_floats[given] = self._emit(Op.TO_FLOATS, given, "float", given.shape)
        return self._in_floats[given]

    def _channels(self, array, given):
        """Keeps one value for each channel."""
        whole = None if array is None else np.broadcast_to(array, given.shape[-1:])
        return self._constant("float", whole)

    def _affine(self, step, given):
        scale, offset = (
            self._channels(step.arrays.get(name), given) for name in ("scale", "offset")
        )
        given = self._floats(given)
        if scale == offset == -1:
            return given
        return self._emit(Op.AFFINE, given, "float", given.shape, first=scale, second=offset)

    def _prelu(self, step, given):
        slopes = self._channels(step.arrays["slopes"], given)
        return self._emit(Op.PRELU, self._floats(given), "float", given.shape, first=slopes)

    def _activation(self, step, given):
        op = Op[step.attributes["function"].upper()]
        return self._emit(op, self._floats(given), "float", given.shape)

    def _add(self, step, given, *others):
        total = self._floats(given)
        for other in map(self._floats, others):
            total = self._emit(Op.ADD, total, "float", total.shape, first=other.place)
        return total

    def _dense(self, step, given):
        kernel = float_kernel(step, step.attributes["fan_in"])
        return self._dot(Op.DOT, step, self._floats(given), kernel)

    def _dot(self, op, step, given, kernel, **columns):
        matrix = self._constant("float", kernel)
        bias = self._constant("float", step.arrays.get("bias"))
        return self._emit(op, given, "float", step.shape, first=matrix, second=bias, **columns)

    def _conv(self, step, given):
        attributes = step.attributes
        groups, taps = attributes["groups"], math.prod(attributes["size"])
        channels = given.shape[-1]
        kernel = float_kernel(step, taps * channels // groups)
        pads = np.full(channels, attributes["pad_value"])
        gathered = self._gathered(Op.GATHER, self._floats(given), attributes, pads)
        if groups == 1:
            outputs = self._dot(Op.DOT, step, gathered, kernel)
        else:
            sizes = {"size": channels, "taps": taps, "groups": groups}
            outputs = self._dot(Op.GROUPED_DOT, step, gathered, kernel, **sizes)
        if step.kind == "int":
            return self._emit(Op.TO_SUMS, outputs, "int", step.shape)
        return outputs

    def _gathered(self, op, given, attributes, border):
        """Lays the windows of images side by side, a row for each place."""
        table = _pixels_of_windows(attributes)
        rows, taps = table.shape
        if taps == 1 and np.array_equal(table[:, 0], np.arange(given.rows)):
            return Value(given.kind, given.place, (rows, given.shape[-1]))
        shape = (rows, taps * given.size * (WORD if given.kind == "bits" else 1))
        places = {"taps": taps, "pixels": given.rows, "first": self._constant("int", table)}
        pads = self._constant(given.kind, border)
        return self._emit(op, given, given.kind, shape, second=pads, **places)

    def _binary_dense(self, step, given):
        kernel = step.arrays["kernel_bits"]
        return self._products(step, given, kernel)

    def _binary_conv(self, step, given):
        attributes = step.attributes
        channels, taps = given.shape[-1], math.prod(attributes["size"])
        kernel = unpack_bits(step.arrays["kernel_bits"], taps * channels)
        kernel = kernel.reshape(-1, taps, channels)
        border = pack_bits(np.full(channels, attributes["pad_value"] > 0))
        gathered = self._gathered(Op.GATHER_WORDS, given, attributes, border)
        words = pack_bits(kernel).reshape(len(kernel), -1)
        return self._products(step, gathered, words, zeros_in_padding(kernel, attributes))

    def _products(self, step, given, kernel, table=None):
        """Products of rows of bits with those of a kernel, some lanes at a time."""
        units, words = kernel.shape
        tiles = np.zeros((-(-units // LANES), LANES, words), "uint64")
        tiles.reshape(-1, words)[:units] = kernel
        first = self._constant("bits", tiles.transpose(0, 2, 1))
        wide = (*step.shape[:-1], len(tiles) * LANES)
        columns = {"size": words, "first": first, "second": step.attributes["fan_in"]}
        sums = self._emit(Op.PRODUCTS, given, "int", wide, **columns)
        if wide[-1] != units:
            sums = self._emit(Op.TRIM, sums, "int", step.shape)
        if table is not None:
            sizes = {"rows": sums.rows, "size": units, "first": self._constant("int", table)}
            self._instructions.append(Instruction(Op.ADD_TABLE, sums.place, sums.place, **sizes))
        return sums

    def _sign(self, step, given):
        given = self._floats(given)
        return self._emit(Op.SIGN, given, "bits", given.shape)

    def _threshold(self, step, given):
        places = {
            "first": self._constant("int", step.arrays["thresholds"]),
            "second": self._constant("bits", step.arrays["flips"]),
        }
        return self._emit(Op.THRESHOLD, given, "bits", given.shape, **places)

    def _signs(self, step, given):
        return self._emit(Op.SIGNS, given, "float", given.shape)

    def _max_pool(self, step, given):
        op = {"float": Op.MAX, "int": Op.MAX_SUMS, "bits": Op.MAX_BITS}[given.kind]
        return self._pooled(op, step, given)

    def _average_pool(self, step, given):
        ones = np.ones((1, *given.shape[:-1], 1), "float32")
        counts = self._constant("float", pooled(step, ones, np.add, 0))
        return self._pooled(Op.MEAN, step, self._floats(given), second=counts)

    def _pooled(self, op, step, given, **columns):
        table = _pixels_of_windows(step.attributes)
        places = {"taps": table.shape[1], "pixels": given.rows}
        first = self._constant("int", table)
        return self._emit(op, given, given.kind, step.shape, first=first, **places, **columns)

    def _reshape(self, step, given):
        size, units = given.shape[-1], step.shape[-1]
        if given.kind != "bits" or size == units or (size % WORD == 0 and units % WORD == 0):
            return Value(given.kind, given.place, tuple(step.shape))
        return self._emit(Op.REPACK, given, "bits", step.shape, size=size)


@functools.cache
def _fingerprint():
    """The name of a field that nothing reads, another one for each version of the engines.

    Numba keeps what it compiled on disk until the file of the function changes. It does not look
    at the files of the functions and numbers that it uses, but it looks at the type of a table.
    """
    sources = sorted(pathlib.Path(__file__).parent.glob("*.py"))
    content = b"".join(source.read_bytes() for source in sources)
    return f"version_{hashlib.sha256(content).hexdigest()[:16]}"


def _aligned(array):
    """A copy that starts where a line of the cache does."""
    room = np.empty(len(array) + _ALIGNED, array.dtype)
    start = -room.ctypes.data % 64 // array.itemsize
    copy = room[start : start + len(array)]
    copy[:] = array
    return copy


def _pixels_of_windows(attributes):
    """The number of each pixel of each window, `(windows, taps)`; -1 in padding."""
    spatial = attributes["input_shape"][:-1]
    pixels = np.arange(math.prod(spatial)).reshape(1, *spatial, 1)
    view = windows(padded(pixels, attributes["pads"], -1), attributes)
    return view.reshape(-1, math.prod(attributes["size"]))
