"""A packed program as the body of a C function: loops over places, each of a few calls."""

import math
import re
from collections.abc import Sequence

import numpy as np

from dann.deployment.c_arrays import Arrays, words_of
from dann.deployment.c_rows import ROWS, Buffer, Row, words
from dann.deployment.graph import PackError
from dann.deployment.runtime import FUNCTIONS, OPERATIONS, Step, unpack_bits

_OF_ARRAYS = {"scale": "scale", "offset": "add", "slopes": "prelu"}
# The array of the largest, the ending of functions, the lowest number.
_POOLED = {"float": ("largest", "", "-INFINITY"), "int": ("largest_sums", "_sums", "INT32_MIN")}


class CProgram:
    """Writes the loops of a program.

    A step that treats each place by itself joins the loop of the step before it, if nothing else
    reads that one; so does a max pooling of windows that do not overlap. Sums of signs that need a
    buffer are stored as floats, exactly. Of a stranger's program only numbers and letters get into
    the C, and sizes that contradict each other are errors.
    """

    def __init__(self, steps: Sequence[Step]):
        self.arrays = Arrays()
        self.lines: list[str] = []
        self.buffers: list[Buffer] = []
        self.rows: dict[str, Buffer] = {}  # the arrays that hold rows
        self.macs = {"bits": 0, "float": 0}
        self._steps = steps
        self._free: list[Buffer] = []
        self._open: dict[int, Row] = {}  # by step
        self._stored = {0: Buffer("input", "float", readers=len(steps))}
        inputs = [number for step in steps for number in step.inputs]
        self._readers = [inputs.count(number) for number in range(len(steps))]
        for number, step in enumerate(steps[1:], start=1):
            if step.op not in OPERATIONS or any(not 0 <= one < number for one in step.inputs):
                raise ValueError(f"Step {number} is no step: {step.op} of {step.inputs}")
            row = getattr(self, step.op)(number, step)
            if row is not None:
                self._check(step, row.places * row.size == math.prod(step.shape))
                row.layers.append(step.layer)
                self._open[number] = row
        self._close(self._row(len(steps) - 1).as_floats(), Buffer("output", "float"))

    def _check(self, step, condition):
        if not condition:
            raise ValueError(f"Operation {step.op} of {step.layer!r} contradicts its inputs")

    def _sizes(self, number):
        """How many places the output of a step has, and how many numbers a place."""
        *places, size = (int(length) for length in self._steps[number].shape)
        return math.prod(places), size

    def _row(self, number):
        """The row of a step, to go on with: its own, if nothing else needs it, or a copy."""
        if number in self._open and self._readers[number] < 2:
            return self._open.pop(number)
        buffer, (places, size) = self._buffer(number), self._sizes(number)
        row = Row(places, size, [buffer])
        row.take(buffer, size)
        return row

    def _float_row(self, step):
        return self._row(step.inputs[0]).as_floats()

    def _buffer(self, number):
        """The buffer of a step's output. Its loop is written now, unless it was before."""
        if number not in self._stored:
            row = self._open.pop(number)
            if row.kind == "int":
                row.as_floats()
            size = row.places * words(row.size, row.kind)
            self._stored[number] = self._new(row.kind, size, self._readers[number])
            self._close(row, self._stored[number])
        return self._stored[number]

    def _new(self, kind, size, readers):
        fitting = [one for one in self._free if one.kind == kind]
        if not fitting:
            name = "bits" if kind == "bits" else "numbers"
            fitting = [Buffer(f"{name}_{len(self.buffers)}", kind)]
            self.buffers += fitting
        buffer = max(fitting, key=lambda one: one.size)
        self._free = [one for one in self._free if one is not buffer]
        buffer.size, buffer.readers = max(buffer.size, size), readers
        return buffer

    def _close(self, row, buffer):
        """Writes the loop of a row, which ends in a buffer."""
        function = "copy_bits" if row.kind == "bits" else "copy"
        row.call(f"{function}({row.name}, {row.size}, {row.at(buffer, row.size)})")
        for name, kind in ROWS.items():
            if re.search(rf"\b{name}\b", "".join(row.calls)):
                known = self.rows.setdefault(name, Buffer(name, kind))
                known.size = max(known.size, words(row.size, kind))
        place = row.place
        self._comment(row.layers, f"{row.places} x {row.size}")
        self.lines.append(f"    for (int {place} = 0; {place} < {row.places}; {place}++) {{")
        self.lines += [*(f"        {call}" for call in row.calls), "    }"]
        for source in row.sources:
            self._release(source)

    def _comment(self, layers, sizes):
        text = f"{', '.join(dict.fromkeys(layers))} -- {sizes}"
        text = re.sub(r"[^\w/., -]", "_", text, flags=re.ASCII)  # no end of the comment
        self.lines += ["", f"    /* {text} */"]

    def _release(self, buffer):
        buffer.readers -= 1
        if buffer.readers == 0:
            self._free.append(buffer)

    def affine(self, number, step):
        row = self._float_row(step)
        for name, values in step.arrays.items():
            array = self.arrays.add(step.layer, name, np.broadcast_to(values, (row.size,)))
            row.call(f"{_OF_ARRAYS[name]}({array}, {row.size}, {row.name})")
        return row

    prelu = affine

    def activation(self, number, step):
        row, name = self._float_row(step), step.attributes["function"]
        self._check(step, name in FUNCTIONS)
        row.call(f"apply_{name}({row.size}, {row.name})")
        return row

    def sign(self, number, step):
        row = self._float_row(step)
        row.call(f"take_signs({row.name}, {row.size}, signs)", "bits", "signs")
        return row

    def threshold(self, number, step):
        row = self._row(step.inputs[0])
        if row.kind == "float":
            row.call(f"to_sums({row.name}, {row.size}, sums)", "int", "sums")
        flips = words_of(unpack_bits(step.arrays["flips"], row.size))
        thresholds = np.broadcast_to(step.arrays["thresholds"], (row.size,))
        flips = self.arrays.add(step.layer, "flips", flips)
        thresholds = self.arrays.add(step.layer, "thresholds", thresholds)
        call = f"compare({row.name}, {thresholds}, {flips}, {row.size}, signs)"
        row.call(call, "bits", "signs")
        return row

    def signs(self, number, step):
        return self._float_row(step)

    def add(self, number, step):
        others = [self._buffer(one) for one in step.inputs[1:]]
        row = self._float_row(step)
        for one, other in zip(step.inputs[1:], others, strict=True):
            fits = self._sizes(one) == (row.places, row.size) and other.kind == "float"
            self._check(step, fits)
            row.call(f"add({row.at(other, row.size)}, {row.size}, {row.name})")
            row.sources.append(other)
        return row

    def concatenate(self, number, step):
        places, size = self._sizes(number)
        row, first = Row(places, size, []), 0
        for one in step.inputs:
            buffer, (rows, width) = self._buffer(one), self._sizes(one)
            self._check(step, rows == places and first + width <= size)
            row.take(buffer, width, first)
            row.sources.append(buffer)
            first += width
        if step.kind == "bits":
            row.call(f"take_signs(values, {size}, signs)", "bits", "signs")
        return row

    def reshape(self, number, step):
        (source,) = step.inputs
        buffer, (places, size) = self._buffer(source), self._sizes(source)
        new_places, new_size = self._sizes(number)
        self._check(step, places * size == new_places * new_size)
        readers = self._readers[number]
        if buffer.kind == "float" or size == new_size or not (size % 32 or new_size % 32):
            buffer.readers += readers - 1
        else:
            old, buffer = buffer, self._new("bits", new_places * words(new_size, "bits"), readers)
            self._comment([step.layer], f"{new_places} x {new_size}")
            sizes = f"{size}, {places * size}, {new_size}"
            self.lines.append(f"    lay_anew({old.name}, {sizes}, {buffer.name});")
            self._release(old)
        self._stored[number] = buffer

    def dense(self, number, step):
        """Dense layers, which are convolutions of one pixel, and convolutions."""
        (source,), (places, units) = step.inputs, self._sizes(number)
        buffer, groups = self._buffer(source), int(step.attributes.get("groups", 1))
        window, taps = self._window(step, groups)
        channels = self._sizes(source)[1] // groups
        self.macs[buffer.kind] += places * units * taps * channels
        row, binary = Row(places, units, [buffer]), buffer.kind == "bits"
        if "kernel" in step.arrays:
            function, kernel = "multiply", step.arrays["kernel"].reshape(taps * channels, units)
            self._check(step, not binary)
        else:
            signs = unpack_bits(step.arrays["kernel_bits"], taps * channels)
            signs = signs.reshape(units, taps, channels)
            function, kernel = "multiply_signs", words_of(signs.transpose(1, 2, 0))
            if binary and groups == 1:
                function, kernel = "multiply_bits", words_of(signs).transpose(1, 2, 0)
            elif binary:
                function = "multiply_bits_in_groups"
        if not binary:
            start = "fill(0"
            if "bias" in step.arrays:
                bias = np.broadcast_to(step.arrays["bias"], (units,))
                start = f"copy({self.arrays.add(step.layer, 'bias', bias)}"
            row.call(f"{start}, {units}, values)")
        kernel = self.arrays.add(step.layer, "kernel", kernel)
        border, name = self._border(step, source, binary), "sums" if binary else "values"
        arguments = f"{buffer.name}, &{window}, place, {kernel}, {border}, {units}, {name}"
        row.call(f"{function}({arguments})", "int" if binary else "float", name)
        return row

    binary_dense = binary_conv = conv = dense

    def _border(self, step, source, binary):
        value = step.attributes.get("pad_value", 0)
        if not value:
            return "NULL"
        border = np.full(self._sizes(source)[1], value, "<f4")
        return self.arrays.add(step.layer, "border", words_of(border > 0) if binary else border)

    def _window(self, step, groups=1):
        """The name of the window of a step, and how many pixels it has."""
        *image, channels = (int(length) for length in self._steps[step.inputs[0]].shape)
        across = int(step.shape[-2]) if len(image) > 1 else math.prod(step.shape[:-1])
        if "size" not in step.attributes:
            image, across = [math.prod(image)], math.prod(step.shape[:-1])
        if len(image) > 2:
            raise PackError(f"Layer {step.layer!r} has 3 spatial axes, for which there is no C")
        size, strides, dilation = (
            self._pair(step.attributes.get(name, [1]), 1)
            for name in ("size", "strides", "dilation")
        )
        before = self._pair([pad[0] for pad in step.attributes.get("pads", [[0]])], 0)
        geometry = [*self._pair(image, 1), channels, *size, *strides, *dilation, *before]
        self._check(step, groups > 0 and channels % groups == 0 and min(geometry) >= 0 < across)
        return self.arrays.window(step.layer, [*geometry, across, groups]), math.prod(size)

    def _pair(self, values, default):
        """The numbers of two axes; what has one axis is one row of pixels."""
        first, second = [default, *map(int, values)][-2:]
        return first, second

    def max_pool(self, number, step):
        (source,) = step.inputs
        if source in self._open and self._readers[source] == 1 and self._is_apart(step, source):
            return self._pooled(step, self._open.pop(source))
        return self._pool(number, step, "find_largest")

    def average_pool(self, number, step):
        return self._pool(number, step, "find_mean")

    def _pool(self, number, step, function):
        buffer, name = self._buffer(step.inputs[0]), "values"
        row = Row(*self._sizes(number), [buffer])
        if buffer.kind == "bits":
            self._check(step, step.op == "max_pool")
            function, name = "find_any", "signs"
        self._check(step, self._sizes(step.inputs[0])[1] == row.size)
        window, _ = self._window(step)
        row.call(f"{function}({buffer.name}, &{window}, place, {name})", buffer.kind, name)
        return row

    def _is_apart(self, step, source):
        """Whether windows share no pixel, so that one loop computes each pixel at most once."""
        attributes, row = step.attributes, self._open[source]
        plain = attributes["strides"] == attributes["size"] and not np.any(attributes["pads"])
        return plain and row.kind in _POOLED and row.place == "place" and len(step.shape) < 4

    def _pooled(self, step, row):
        """The row of a max pooling of a row: the largest of those of the pixels."""
        height, width = self._pair(self._steps[step.inputs[0]].shape[:-1], 1)
        down, right = self._pair(step.attributes["size"], 1)
        along, across = self._pair(step.shape[:-1], 1)
        self._check(step, along * down <= height and across * right <= width)
        name, ending, lowest = _POOLED[row.kind]
        y = f"pooled / {across} * {down} + pixel / {right}"
        x = f"pooled % {across} * {right} + pixel % {right}"
        row.calls = [
            f"fill{ending}({lowest}, {row.size}, {name});",
            f"for (int pixel = 0; pixel < {down * right}; pixel++) {{",
            f"    int place = ({y}) * {width} + {x};",
            *(f"    {call}" for call in row.calls),
            f"    keep_larger{ending}({row.name}, {row.size}, {name});",
            "}",
        ]
        row.places, row.place, row.name = along * across, "pooled", name
        return row
