"""A packed program as the body of a C function: loops over places, each of a few calls."""

import math
import re
import textwrap
from collections.abc import Sequence

import numpy as np

from dann.deployment.folding import kind_of
from dann.deployment.packing import pack_bits
from dann.deployment.runtime import Step
from dann.deployment.tracing import PackError

TYPES = {"numbers": "float", "bits": "uint32_t"}
_LITERALS = {"f": "{!s}f", "u": "0x{:08x}u", "i": "{}"}  # exact, by NumPy's kind
# What is done to a row at a place: by the operation, or for each array of it.
_CALLS = {
    "average_pool": "divide({source}, {size}, {target})",
    "activation": "apply_{function}({size}, {target})",
    "sign": "take_signs({source}, {size}, {target})",
    "threshold": "compare({source}, {thresholds}, {flips}, {size}, {target})",
    "scale": "multiply({scale}, {size}, {target})",
    "offset": "add({offset}, {size}, {target})",
    "bias": "add({bias}, {size}, {target})",
    "slopes": "prelu({slopes}, {size}, {target})",
}
_ARRAYS = ("scale", "offset", "bias", "slopes", "thresholds", "flips")
_OF_ONE_PLACE = ("activation", "affine", "prelu", "sign", "signs", "threshold")


class CProgram:
    """Writes the loops of a program.

    A row is what a step gives at one place: numbers, or signs as bits. Sums of signs are numbers,
    which hold them exactly. A step is computed in the loop of the one step that reads it, if that
    one treats each place by itself or pools windows that share no pixel. The rows of the others are
    stored. Names of constants and windows in C have the number of their step; buffers, which one
    step after the other may use, have numbers of their own.

    Of a stranger's program only numbers and letters get into the C.

    Args:
        steps: The program.
        shapes: Shapes of the outputs of the steps.
    """

    def __init__(self, steps: Sequence[Step], shapes: Sequence[Sequence[int]]):
        self.shapes = shapes
        self.lines: list[str] = []
        self.constants: list[str] = []
        products = "numbers", "signs", "bits", "bits_in_groups"
        # Bytes, and how often the innermost line of each product runs, border and all.
        self.counts = dict.fromkeys(("flash", *(f"multiply_{one}" for one in products)), 0)
        self._names: dict[tuple, str] = {}  # of constants, by layer and content
        self.arrays: dict[str, tuple[str, int]] = {}  # kind and size of all buffers, by name
        self._steps = steps
        self._readers: list[list[int]] = [[] for _ in steps]
        self._kinds: list[str] = []
        for number, step in enumerate(steps):
            for one in step.inputs:
                self._readers[one].append(number)
            kind = kind_of(step.op, {self._kinds[one] for one in step.inputs})
            self._kinds.append("bits" if kind == "bits" else "numbers")
        self._buffers = {0: "input"}  # where the rows of steps are stored
        self._written: dict[int, str] = {}  # the steps that are computed so far
        for number, step in enumerate(steps[1:], start=1):
            if not self._joins(number, step):
                self._store(number, step)
        self._loop(len(steps) - 1, "numbers", "output")
        self.counts["ram"] = 4 * sum(size for _, size in self.arrays.values())

    def _joins(self, number, step):
        """Whether a step is computed in the loop of its reader."""
        if step.op == "reshape":
            return False
        if number == len(self._steps) - 1:
            return True
        reader, *others = (self._steps[one] for one in self._readers[number] or [0])
        if others or reader.op in ("add", "multiply"):
            product = reader.op == "add" and step.op.startswith("binary")
            return not others and (product or reader.inputs[0] == number)
        if reader.op in ("average_pool", "max_pool"):
            windows = reader.attributes
            return windows["strides"] == windows["size"] and not np.any(windows["pads"])
        return reader.op in _OF_ONE_PLACE

    def _store(self, number, step):
        kind, (*places, size) = self._kinds[number], self.shapes[number]
        if step.op == "reshape" and kind == "numbers":
            buffer = self._buffers[step.inputs[0]]
            self._written[number] = "reshape"
        else:
            buffer = self._buffer(kind, math.prod(places) * _words(size, kind))
            self._loop(number, kind, buffer)
        self._buffers[number] = buffer

    def _buffer(self, kind, size):
        """A new buffer, or one that no step reads any more."""
        used = {self._buffers[n] for n in self._buffers if {*self._readers[n]} - {*self._written}}
        names = [name for name in self.arrays if name.startswith(f"{kind}_") and name not in used]
        new = f"{kind}_{len(self.arrays)}"
        return self._array(max(names, key=lambda one: self.arrays[one][1], default=new), kind, size)

    def _array(self, name, kind, size):
        self.arrays[name] = kind, max(size, self.arrays.get(name, (kind, 0))[1])
        return name

    def _loop(self, number, kind, buffer):
        """Writes the loop that ends with a step's rows in a buffer."""
        (*places, size), before = self.shapes[number], len(self._written)
        calls = self._row(number, kind, _at(buffer, _words(size, kind), "place"), "place")
        comment = ", ".join([*self._written.values()][before:])
        comment = re.sub(r"[^\w/., -]", "_", comment, flags=re.ASCII)  # no end of the comment
        comment = f"/* {comment}: {math.prod(places)} x {size} {kind} */"
        head = f"for (int place = 0; place < {math.prod(places)}; place++) {{"
        calls = textwrap.indent("\n".join(calls), "    ")
        self.lines += ["", textwrap.fill(comment, 96, subsequent_indent="   "), head, calls, "}"]

    def _row(self, number, kind, target, place):
        """The calls that write the row of a step at a place, in a kind, to a target."""
        step, size, own = self._steps[number], self.shapes[number][-1], self._kinds[number]
        if own != kind or number in self._buffers:
            calls, row = self._found(number, own, place, "signs")
            return [*calls, f"{'copy' if own == kind else 'to_signs'}({row}, {size}, {target});"]
        method = getattr(self, f"_{step.op}", self._of_one_place)
        calls = method(number, target, place)
        self._written[number] = f"{number} {step.op} of {step.layer}"
        return calls

    def _found(self, number, kind, place, name):
        """The calls that compute the row of a step unless it is stored, and where it is then."""
        size = _words(self.shapes[number][-1], kind)
        if number in self._buffers and self._kinds[number] == kind:
            return [], _at(self._buffers[number], size, place)
        row = self._array(f"{name}_at_{place}", kind, size)
        return self._row(number, kind, row, place), row

    def _of_one_place(self, number, target, place):
        (before,), calls, source = self._steps[number].inputs, [], target
        if self._steps[number].op in ("sign", "threshold"):
            calls, source = self._found(before, "numbers", place, "values")
        else:
            calls = self._row(before, "numbers", target, place)
        return [*calls, *self._own_calls(number, target, source)]

    def _own_calls(self, number, target, source=""):
        """The calls of `_CALLS` for a step."""
        step, size = self._steps[number], self.shapes[number][-1]
        texts = {**step.attributes, "source": source, "target": target, "size": size}
        names = [name for name in _ARRAYS if name in step.arrays]
        for name in names:
            texts[name] = self._constant(number, name, np.broadcast_to(step.arrays[name], (size,)))
        own = [text for name, text in _CALLS.items() if name in (step.op, *names)]
        return [f"{call.format(**texts)};" for call in own]

    def _add(self, number, target, place):
        """Sums and products, to whose first input the others may be broadcast."""
        step, whole = self._steps[number], self.shapes[number]
        shapes, size = [self.shapes[one] for one in step.inputs], whole[-1]
        places = (1, math.prod(whole[:-1]))
        fit = all(math.prod(one[:-1]) in places and one[-1] in (1, size) for one in shapes)
        if shapes[0] != whole or not fit:
            raise PackError(f"Layer {step.layer!r} joins shapes for which there is no C: {shapes}")
        calls = self._row(step.inputs[0], "numbers", target, place)
        for one, shape in zip(step.inputs[1:], shapes[1:], strict=True):
            at = place if shape[:-1] == whole[:-1] else "0"
            more, other = self._found(one, "numbers", at, "other")
            function = f"{step.op}_one" if shape[-1] < size else step.op
            calls += [*more, f"{function}({other}, {size}, {target});"]
        return calls

    _multiply = _add

    def _concatenate(self, number, target, place):
        calls, first = [], 0
        for one in self._steps[number].inputs:
            calls += self._row(one, "numbers", f"{target} + {first}", place)
            first += self.shapes[one][-1]
        return calls

    def _reshape(self, number, target, place):
        (source,), size = self._steps[number].inputs, self.shapes[number][-1]
        rows = f"{self._buffers[source]}, {self.shapes[source][-1]}"
        return [f"repack_bits({rows}, {place}, {size}, {target});"]

    def _max_pool(self, number, target, place):
        step, size, kind = self._steps[number], self.shapes[number][-1], self._kinds[number]
        window, pixel = self._window(number), "pixel" if place == "place" else f"{place}_in"
        calls, row = self._found(step.inputs[0], kind, pixel, f"row_of_{kind}")
        calls += [f"{step.op}_{kind}({row}, {pixel}_count, {_words(size, kind)}, {target});"]
        is_found = f"({pixel} = next_pixel(&{window}, {place}, &tap)) >= 0"
        return [
            f"int {pixel}_count = 0;",
            f"for (int tap = 0, {pixel}; {is_found}; {pixel}_count++) {{",
            *(f"    {call}" for call in calls),
            "}",
            *self._own_calls(number, target, f"{pixel}_count"),
        ]

    _average_pool = _max_pool

    def _dense(self, number, target, place):
        """Convolutions, and dense layers, which are convolutions of one pixel."""
        step, size = self._steps[number], self.shapes[number][-1]
        (source,), groups = step.inputs, step.attributes.get("groups", 1)
        kind, channels = self._kinds[source], self.shapes[source][-1]
        window = self._window(number, channels=channels, groups=groups)
        taps = math.prod(step.attributes.get("size", []))
        kernel = step.arrays["kernel"].reshape(taps, channels // groups, size)
        function = "multiply_numbers" if kernel.dtype == "f4" else "multiply_signs"
        if kind == "bits":
            function = "multiply_bits" if groups == 1 else "multiply_bits_in_groups"
        if function == "multiply_bits":
            kernel = _words_of(kernel.transpose(0, 2, 1) > 0).transpose(0, 2, 1)
        elif function != "multiply_numbers":
            kernel = kernel > 0
        self.counts[function] += math.prod(self.shapes[number][:-1]) * kernel.size
        border, value = "ZERO_BORDER", step.attributes.get("pad_value", 0)
        if value:
            values = np.full(channels, value, "f4")
            border = self._constant(number, "border", values > 0 if kind == "bits" else values)
        kernel = self._constant(number, "kernel", kernel)
        image = f"{self._buffers[source]}, &{window}, {place}"
        call = f"{function}({image}, {kernel}, {border}, {size}, {target});"
        return [call, *self._own_calls(number, target)]

    _binary_dense = _binary_conv = _conv = _dense

    def _window(self, number, **others):
        """Adds the window of a step, and returns its name."""
        step = self._steps[number]
        image, outputs = self.shapes[step.inputs[0]][:-1], self.shapes[number][:-1]
        if "size" not in step.attributes:
            image, outputs = [math.prod(image)], [math.prod(outputs)]
        if len(image) > 2:
            raise PackError(f"Layer {step.layer!r} has 3 spatial axes, for which there is no C")
        before = [pad[0] for pad in step.attributes.get("pads", [])]
        pairs = {**step.attributes, "image": image, "pads": before}
        names = ("image", "size", "strides", "dilation", "pads")
        fields = {one: _pair(pairs.get(one, []), int(one != "pads")) for one in names}
        fields |= {"output_width": [1, *outputs][-1], **others}
        texts = [f".{one} = {value}" for one, value in fields.items()]
        self._declare(f"window_t window_{number}", texts, 13)
        return f"window_{number}"

    def _constant(self, number, what, values):
        """Adds an array, booleans as bits, unless the layer has it already; returns its name."""
        values = _words_of(values) if values.dtype == bool else values
        texts = [_LITERALS[values.dtype.kind].format(value) for value in values.ravel()]
        content, name = (self._steps[number].layer, what, *texts), f"{what}_{number}"
        if content not in self._names:
            self._names[content] = name
            kind = "uint32_t" if values.dtype.kind == "u" else "float"
            self._declare(f"{kind} {name}[] DANN_ALIGNED", texts, values.size)
        return self._names[content]

    def _declare(self, declared, texts, numbers):
        self.constants += [f"static const {declared} = {{", f"{in_rows(texts)}", "};", ""]
        self.counts["flash"] += 4 * numbers


def in_rows(texts: Sequence[str]) -> str:
    """Returns texts with commas between them, six a line."""
    rows = [", ".join(texts[start : start + 6]) for start in range(0, len(texts), 6)]
    return textwrap.indent(",\n".join(rows), "    ")


def _words_of(signs):
    """Packs booleans `(..., n)` into 32-bit words `(..., words)`, the first in the lowest bit."""
    return pack_bits(signs).view("<u4")[..., : -(-signs.shape[-1] // 32)]


def _pair(values, default=1):
    """The numbers of two axes in C; what has one axis is one row of pixels."""
    first, second = [default, default, *values][-2:]
    return f"{{{first:d}, {second:d}}}"  # of a stranger it takes integers only


def _at(buffer, size, place):
    """Where the row of a place begins."""
    return f"{buffer} + {place}" if size == 1 else f"{buffer} + {size} * {place}"


def _words(size, kind):
    """How many numbers of C a row of a kind takes."""
    return -(-size // 32) if kind == "bits" else size
