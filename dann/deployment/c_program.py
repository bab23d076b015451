"""Writes a packed program as the body of a C function: loops over places that call functions."""

import math
import re
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from dann.deployment.c_constants import CConstants, format_pair, pack_words
from dann.deployment.folding import get_output_kind
from dann.deployment.runtime import Step
from dann.deployment.tracing import PackError

TYPES = {"numbers": "float", "bits": "uint32_t"}
# The C functions of operations and of their arrays, with the arguments before size and target.
_CHANNELWISE = {
    "average_pool": ("divide", "source"),
    "activation": ("apply_{function}",),
    "sign": ("take_signs", "source"),
    "threshold": ("compare", "source", "thresholds", "flips"),
    "scale": ("multiply", "scale"),
    "offset": ("add", "offset"),
    "bias": ("add", "bias"),
    "divisors": ("divide_each", "divisors"),
    "slopes": ("prelu", "slopes"),
}
_CHANNEL_ARRAYS = ("scale", "offset", "bias", "divisors", "slopes", "thresholds", "flips")
_PRODUCTS = ("multiply_numbers", "multiply_signs", "multiply_bits", "multiply_bits_in_groups")
_POINTWISE = ("activation", "affine", "divide", "prelu", "sign", "signs", "threshold")


class CProgram:
    """The loops, constants and buffers of a program in C.

    A place is the index of a pixel, and a row is the output of a step at one place: numbers, or
    signs as bits. Sums of signs are numbers, because float represents them exactly.

    A step is inlined into the loop of its reader if it has only one reader, and this reader is
    pointwise or pools windows that do not overlap. The rows of all other steps are stored in
    buffers. The names of constants and windows end with the number of their step. Buffers are
    numbered independently, because several steps use a buffer one after the other.

    Names in a packed file are untrusted: they reach the C source only inside comments.

    Args:
        steps: The program.
        shapes: Shapes of the outputs of the steps, without the batch.

    Attributes:
        lines: Lines of the body of the function.
        constants: The constants, windows included.
        buffers: Kind and size of each buffer, by its name.
        counts: How often the innermost line of each function of products runs, borders included.
    """

    def __init__(self, steps: Sequence[Step], shapes: Sequence[Sequence[int]]):
        self.shapes = shapes
        self.lines: list[str] = []
        self.constants = CConstants()
        self.buffers: dict[str, tuple[str, int]] = {}
        self.counts = dict.fromkeys(_PRODUCTS, 0)
        self._steps = steps
        self._readers: list[list[int]] = [[] for _ in steps]
        self._kinds: list[str] = []
        self._stored = {0: "input"}  # names of the buffers of stored steps
        self._comments: dict[int, str] = {}  # descriptions of the steps that are already computed
        self._writers = {
            "add": self._combine,
            "multiply": self._combine,
            "concatenate": self._concatenate,
            "reshape": self._repack,
            "take": self._take,
            "max_pool": self._pool,
            "average_pool": self._pool,
            **dict.fromkeys(("conv", "binary_conv"), self._multiply_kernel),
            **dict.fromkeys(("dense", "binary_dense"), self._multiply_kernel),
        }
        for number, step in enumerate(steps):
            for source in step.inputs:
                self._readers[source].append(number)
            kind = get_output_kind(step.op, {self._kinds[source] for source in step.inputs})
            self._kinds.append("bits" if kind == "bits" else "numbers")
        for number, step in enumerate(steps[1:], start=1):
            if not self._is_inlined(number, step):
                self._store(number, step)
        self._write_loop(len(steps) - 1, "numbers", "output")

    def _is_inlined(self, number, step):
        """Returns whether a step is computed in the loop of its reader."""
        if step.op == "reshape":
            return False
        if number == len(self._steps) - 1:
            return True
        if len(self._readers[number]) > 1:
            return False
        # A step without a reader counts as read by the input, which inlines nothing.
        reader = self._steps[(self._readers[number] or [0])[0]]
        if reader.op in ("add", "multiply"):
            is_binary_term = reader.op == "add" and step.op.startswith("binary")
            return is_binary_term or reader.inputs[0] == number
        if reader.op in ("average_pool", "max_pool"):
            window = reader.attributes
            return window["strides"] == window["size"] and not np.any(window["pads"])
        return reader.op in _POINTWISE

    def _store(self, number, step):
        kind, (*places, size) = self._kinds[number], self.shapes[number]
        if step.op == "reshape" and kind == "numbers":
            buffer = self._stored[step.inputs[0]]
            self._comments[number] = "reshape"
        else:
            buffer = self._allocate(kind, math.prod(places) * _count_words(size, kind))
            self._write_loop(number, kind, buffer)
        self._stored[number] = buffer

    def _allocate(self, kind, size):
        """Returns a buffer that no later step reads, the largest one, or a new buffer."""
        unread = [n for n in self._stored if {*self._readers[n]} - {*self._comments}]
        used = {self._stored[number] for number in unread}
        names = [name for name in self.buffers if name.startswith(f"{kind}_") and name not in used]
        new = f"{kind}_{len(self.buffers)}"
        largest = max(names, key=lambda name: self.buffers[name][1], default=new)
        return self._reserve(largest, kind, size)

    def _reserve(self, name, kind, size):
        self.buffers[name] = kind, max(size, self.buffers.get(name, (kind, 0))[1])
        return name

    def _write_loop(self, number, kind, buffer):
        """Writes the loop that stores the rows of a step in a buffer."""
        (*places, size), start = self.shapes[number], len(self._comments)
        row = _offset(buffer, _count_words(size, kind), "place")
        calls = textwrap.indent("\n".join(self._compute_row(number, kind, row, "place")), "    ")
        comment = ", ".join([*self._comments.values()][start:])
        # Names of layers are untrusted; without "*" and "?" they cannot end the comment.
        comment = re.sub(r"[^\w/., -]", "_", comment, flags=re.ASCII)
        comment = f"/* {comment}: {math.prod(places)} x {size} {kind} */"
        head = f"for (int place = 0; place < {math.prod(places)}; place++) {{"
        self.lines += ["", textwrap.fill(comment, 96, subsequent_indent="   "), head, calls, "}"]

    def _compute_row(self, number, kind, target, place):
        """Returns the calls that write the row of a step, in a kind, to a target."""
        step, size, step_kind = self._steps[number], self.shapes[number][-1], self._kinds[number]
        if step_kind != kind or number in self._stored:
            calls, row = self._find_row(number, step_kind, place, "signs")
            convert = "copy" if step_kind == kind else "to_signs"
            return [*calls, _call(convert, row, size, target)]
        calls = self._writers.get(step.op, self._pointwise)(number, target, place)
        self._comments[number] = f"{number} {step.op} of {step.layer}"
        return calls

    def _find_row(self, number, kind, place, name):
        """Returns the calls that compute a row, none if it is stored, and the row's address."""
        size = _count_words(self.shapes[number][-1], kind)
        if number in self._stored and self._kinds[number] == kind:
            return [], _offset(self._stored[number], size, place)
        row = self._reserve(f"{name}_at_{place}", kind, size)
        return self._compute_row(number, kind, row, place), row

    def _pointwise(self, number, target, place):
        (before,), calls, source = self._steps[number].inputs, [], target
        if self._steps[number].op in ("sign", "threshold"):
            calls, source = self._find_row(before, "numbers", place, "values")
        else:
            calls = self._compute_row(before, "numbers", target, place)
        return [*calls, *self._call_channelwise(number, target, source)]

    def _call_channelwise(self, number, target, source=""):
        """Returns the calls for what a step does to each channel, after its sums."""
        step, size, calls = self._steps[number], self.shapes[number][-1], []
        values = {"source": source}
        for name in _CHANNEL_ARRAYS:
            if name in step.arrays:
                array = np.broadcast_to(step.arrays[name], (size,))
                values[name] = self._constant(number, name, array)
        for name, (function, *arguments) in _CHANNELWISE.items():
            if name == step.op or name in values:
                function = function.format(**step.attributes)
                calls.append(_call(function, *(values[a] for a in arguments), size, target))
        return calls

    def _combine(self, number, target, place):
        """Adds or multiplies the inputs of a step; all but the first may be broadcast."""
        step, shape = self._steps[number], self.shapes[number]
        shapes, size = [self.shapes[source] for source in step.inputs], shape[-1]
        counts = (1, math.prod(shape[:-1]))
        fit = all(math.prod(s[:-1]) in counts and s[-1] in (1, size) for s in shapes)
        if shapes[0] != shape or not fit:
            raise PackError(
                f"Expected shapes that C can broadcast to the first. Received: {shapes} for layer "
                f"{step.layer!r}"
            )
        calls = self._compute_row(step.inputs[0], "numbers", target, place)
        for source, source_shape in zip(step.inputs[1:], shapes[1:], strict=True):
            source_place = place if source_shape[:-1] == shape[:-1] else "0"
            term, row = self._find_row(source, "numbers", source_place, "other")
            function = f"{step.op}_one" if source_shape[-1] < size else step.op
            calls += [*term, _call(function, row, size, target)]
        return calls

    def _concatenate(self, number, target, place):
        calls, first = [], 0
        for source in self._steps[number].inputs:
            calls += self._compute_row(source, "numbers", f"{target} + {first}", place)
            first += self.shapes[source][-1]
        return calls

    def _repack(self, number, target, place):
        (source,), size = self._steps[number].inputs, self.shapes[number][-1]
        rows, length = self._stored[source], self.shapes[source][-1]
        return [_call("repack_bits", rows, length, place, size, target)]

    def _take(self, number, target, place):
        (source,) = self._steps[number].inputs
        if self._kinds[source] == "bits":
            raise PackError(f"Expected numbers to take. Received: bits of step {source}")
        starts = self._constant(number, "starts", self._steps[number].arrays["starts"].astype("u4"))
        row = f"{self._stored[source]} + {starts}[{place}]"
        return [_call("copy", row, self.shapes[number][-1], target)]

    def _pool(self, number, target, place):
        step, size, kind = self._steps[number], self.shapes[number][-1], self._kinds[number]
        window, pixel = self._window(number), "pixel" if place == "place" else f"{place}_in"
        calls, row = self._find_row(step.inputs[0], kind, pixel, f"row_of_{kind}")
        count, words = f"{pixel}_count", _count_words(size, kind)
        calls.append(_call(f"{step.op}_{kind}", row, count, words, target))
        next_pixel = _call("next_pixel", f"&{window}", place, "&tap").rstrip(";")
        return [
            f"int {count} = 0;",
            f"for (int tap = 0, {pixel}; ({pixel} = {next_pixel}) >= 0; {count}++) {{",
            *(f"    {call}" for call in calls),
            "}",
            *self._call_channelwise(number, target, count),
        ]

    def _multiply_kernel(self, number, target, place):
        """Writes a convolution, or a dense layer, which is a convolution of one pixel."""
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
            # (taps, channels, units) -> (taps, words, units): units are adjacent for each word.
            kernel = pack_words(kernel.transpose(0, 2, 1) > 0).transpose(0, 2, 1)
        elif function != "multiply_numbers":
            kernel = kernel > 0
        self.counts[function] += math.prod(self.shapes[number][:-1]) * kernel.size
        border, value = "ZERO_BORDER", step.attributes.get("pad_value", 0)
        if value:
            values = np.full(channels, value, "f4")
            border = self._constant(number, "border", values > 0 if kind == "bits" else values)
        kernel = self._constant(number, "kernel", kernel)
        image = self._stored[source], f"&{window}", place
        call = _call(function, *image, kernel, border, size, target)
        return [call, *self._call_channelwise(number, target)]

    def _window(self, number, **channels: Any):
        """Declares the window of a step, and returns its name."""
        step = self._steps[number]
        image, outputs = self.shapes[step.inputs[0]][:-1], self.shapes[number][:-1]
        if "size" not in step.attributes:
            image, outputs = [math.prod(image)], [math.prod(outputs)]
        if len(image) > 2:
            raise PackError(
                "Expected at most 2 spatial axes, because C supports no more. Received: layer "
                f"{step.layer!r} with 3 spatial axes"
            )
        pads = [pad[0] for pad in step.attributes.get("pads", [])]
        sizes = {**step.attributes, "image": image, "pads": pads}
        names = ("image", "size", "strides", "dilation", "pads")
        fields = {name: format_pair(sizes.get(name, []), int(name != "pads")) for name in names}
        fields |= {"output_width": [1, *outputs][-1], **channels}
        texts = [f".{name} = {value}" for name, value in fields.items()]
        self.constants.declare(f"window_t window_{number}", texts, 13)
        return f"window_{number}"

    def _constant(self, number, prefix, values):
        return self.constants.add(self._steps[number].layer, prefix, number, values)


def _call(function, *arguments):
    """Returns a call of a C function of `frame.c`."""
    return f"{function}({', '.join(map(str, arguments))});"


def _offset(buffer, size, place):
    """Returns the address of the row of a place."""
    return f"{buffer} + {place}" if size == 1 else f"{buffer} + {size} * {place}"


def _count_words(size, kind):
    """Returns the number of C numbers or words of a row."""
    return -(-size // 32) if kind == "bits" else size
