"""Writes a packed program as the body of a C function: loops over pixels that call functions."""

import math
import textwrap
from collections.abc import Sequence

import numpy as np

from dann.deployment.c_constants import CConstants, format_pair, pack_words
from dann.deployment.folding import get_output_kind
from dann.deployment.runtime import Step
from dann.deployment.tracing import PackError

TYPES = {"numbers": "float", "bits": "uint32_t"}
# C functions by operation or array, in the order of their calls, with the arguments before the
# size and the target: the source, and arrays of the step.
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
_POINTWISE = ("activation", "affine", "divide", "prelu", "sign", "signs", "threshold")


class CProgram:
    """The loops, constants and buffers of a program in C.

    Each loop computes the pixels of one output; a dense layer has one pixel. The values of a pixel
    are one number per channel, or one bit per channel where they are signs. Sums of signs are
    numbers too, because float represents them exactly. Names of layers in a packed file are
    untrusted, and do not reach the C source.

    A step is inlined into the loop of its reader if it has only one reader, and this reader is
    pointwise or pools windows that do not overlap. The outputs of all other steps are stored in
    buffers. The names of constants and windows end with the number of their step. Buffers are
    numbered independently, because several steps use a buffer one after the other. For example, a
    binary convolution to 70 channels and an inlined threshold become

        /* 3 binary_conv, 4 threshold: 16 x 70 bits */
        for (int pixel = 0; pixel < 16; pixel++) {
            multiply_bits(bits_0, &window_3, pixel, kernel_3, ZERO_BORDER, 70, values_at_pixel);
            compare(values_at_pixel, thresholds_4, flips_4, 70, bits_1 + 3 * pixel);
        }

    Args:
        steps: The program.
        shapes: Shapes of the outputs of the steps, without the batch.

    Attributes:
        lines: Lines of the body of the function.
        constants: The constants, windows included.
        buffers: Kind and size of each buffer, by its name.
    """

    def __init__(self, steps: Sequence[Step], shapes: Sequence[Sequence[int]]):
        self.shapes = shapes
        self.lines: list[str] = []
        self.constants = CConstants()
        self.buffers: dict[str, tuple[str, int]] = {}
        self._steps = steps
        self._readers: list[list[int]] = [[] for _ in steps]
        self._kinds: list[str] = []
        self._stored = {0: "input"}  # names of the buffers of stored steps
        self._written_steps: list[int] = []  # steps, in the order of the code
        self._writers = {
            **dict.fromkeys(("add", "multiply"), self._combine),
            **dict.fromkeys(("average_pool", "max_pool"), self._pool),
            **dict.fromkeys(("binary_conv", "binary_dense"), self._multiply_kernel),
            **dict.fromkeys(("conv", "dense"), self._multiply_kernel),
            "concatenate": self._concatenate,
            "reshape": self._repack,
            "take": self._take,
        }
        for number, step in enumerate(steps):
            for source in step.inputs:
                self._readers[source].append(number)
            kind = get_output_kind(step.op, {self._kinds[source] for source in step.inputs})
            self._kinds.append("bits" if kind == "bits" else "numbers")
        for number in range(1, len(steps)):
            if not self._is_inlined(number):
                self._store(number)
        self._write_loop(len(steps) - 1, "numbers", "output")

    def _is_inlined(self, number):
        """Returns whether a step is computed in the loop of its reader."""
        step, readers = self._steps[number], self._readers[number]
        if step.op == "reshape":
            return False
        if number == len(self._steps) - 1:
            return True
        if len(readers) != 1:
            return False
        reader = self._steps[readers[0]]
        # Sums and products are computed in place: their first input is written to the target.
        if reader.op in ("add", "multiply"):
            is_binary_term = reader.op == "add" and step.op.startswith("binary")
            return is_binary_term or reader.inputs[0] == number
        if reader.op in ("average_pool", "max_pool"):
            window = reader.attributes  # each pixel is read once, so it is computed once
            return window["strides"] == window["size"] and not np.any(window["pads"])
        return reader.op in _POINTWISE

    def _store(self, number):
        step, kind, (*image, size) = self._steps[number], self._kinds[number], self.shapes[number]
        if step.op == "reshape" and kind == "numbers":
            buffer = self._stored[step.inputs[0]]  # numbers keep their order in memory
            self._written_steps.append(number)
        else:
            # The largest buffer that no later step reads, or a new buffer.
            pending = [n for n in self._stored if {*self._readers[n]} - {*self._written_steps}]
            used = {self._stored[n] for n in pending}
            names = [n for n in self.buffers if n.startswith(f"{kind}_") and n not in used]
            new_name = f"{kind}_{len(self.buffers)}"
            buffer = max(names, key=lambda name: self.buffers[name][1], default=new_name)
            self._reserve(buffer, kind, math.prod(image) * _count_words(size, kind))
            self._write_loop(number, kind, buffer)
        self._stored[number] = buffer

    def _reserve(self, name, kind, size):
        self.buffers[name] = kind, max(size, self.buffers.get(name, (kind, 0))[1])
        return name

    def _write_loop(self, number, kind, buffer):
        """Writes the loop that stores the values of all pixels of a step in a buffer."""
        (*image, size), start = self.shapes[number], len(self._written_steps)
        target = _offset(buffer, _count_words(size, kind), "pixel")
        calls = "\n".join(self._compute_values(number, kind, target, "pixel"))
        names = ", ".join(f"{n} {self._steps[n].op}" for n in self._written_steps[start:])
        pixels = math.prod(image)
        comment = f"/* {names}: {pixels} x {size} {kind} */"
        head = f"for (int pixel = 0; pixel < {pixels}; pixel++) {{"
        self.lines += ["", comment, head, textwrap.indent(calls, "    "), "}"]

    def _compute_values(self, number, kind, target, pixel):
        """Returns the calls that write the values of a step at a pixel, in a kind, to a target."""
        step, size, step_kind = self._steps[number], self.shapes[number][-1], self._kinds[number]
        if step_kind != kind or number in self._stored:
            calls, values = self._find_values(number, step_kind, pixel, "signs")
            convert = "copy" if step_kind == kind else "to_signs"
            return [*calls, _call(convert, values, size, target)]
        calls = self._writers.get(step.op, self._apply_pointwise)(number, target, pixel)
        self._written_steps.append(number)
        return calls

    def _find_values(self, number, kind, pixel, name):
        """Returns the calls that compute values, none if they are stored, and their address."""
        size = _count_words(self.shapes[number][-1], kind)
        if number in self._stored and self._kinds[number] == kind:
            return [], _offset(self._stored[number], size, pixel)
        values = self._reserve(f"{name}_at_{pixel}", kind, size)
        return self._compute_values(number, kind, values, pixel), values

    def _apply_pointwise(self, number, target, pixel):
        (before,), source = self._steps[number].inputs, target
        if self._steps[number].op in ("sign", "threshold"):
            calls, source = self._find_values(before, "numbers", pixel, "values")
        else:
            calls = self._compute_values(before, "numbers", target, pixel)
        return [*calls, *self._call_channelwise(number, target, source)]

    def _call_channelwise(self, number, target, source=""):
        """Returns the calls for what a step does to each channel, after its sums."""
        step, size, calls = self._steps[number], self.shapes[number][-1], []
        values = {"source": source}
        for name in _CHANNEL_ARRAYS:
            if name in step.arrays:
                array = np.broadcast_to(step.arrays[name], (size,))
                values[name] = self.constants.add(f"{name}_{number}", array)
        for name, (function, *arguments) in _CHANNELWISE.items():
            if name == step.op or name in values:
                function = function.format(**step.attributes)
                calls.append(_call(function, *(values[a] for a in arguments), size, target))
        return calls

    def _combine(self, number, target, pixel):
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
        calls = self._compute_values(step.inputs[0], "numbers", target, pixel)
        for source, source_shape in zip(step.inputs[1:], shapes[1:], strict=True):
            source_pixel = pixel if source_shape[:-1] == shape[:-1] else "0"
            term, values = self._find_values(source, "numbers", source_pixel, "term")
            function = f"{step.op}_one" if source_shape[-1] < size else step.op
            calls += [*term, _call(function, values, size, target)]
        return calls

    def _concatenate(self, number, target, pixel):
        calls, first = [], 0
        for source in self._steps[number].inputs:
            calls += self._compute_values(source, "numbers", f"{target} + {first}", pixel)
            first += self.shapes[source][-1]
        return calls

    def _repack(self, number, target, pixel):
        (source,), size = self._steps[number].inputs, self.shapes[number][-1]
        length = self.shapes[source][-1]
        return [_call("repack_bits", self._stored[source], length, pixel, size, target)]

    def _take(self, number, target, pixel):
        (source,) = self._steps[number].inputs
        if self._kinds[source] == "bits":
            raise PackError(f"Expected numbers to take. Received: bits of step {source}")
        starts = self._steps[number].arrays["starts"].astype("u4")
        starts = self.constants.add(f"starts_{number}", starts)
        values = f"{self._stored[source]} + {starts}[{pixel}]"
        return [_call("copy", values, self.shapes[number][-1], target)]

    def _pool(self, number, target, pixel):
        step, size, kind = self._steps[number], self.shapes[number][-1], self._kinds[number]
        window, tap, count = self._declare_window(number), f"{pixel}_in", f"{pixel}_count"
        calls, values = self._find_values(step.inputs[0], kind, tap, f"pool_{kind}")
        calls.append(_call(f"{step.op}_{kind}", values, count, _count_words(size, kind), target))
        return [
            f"int {count} = 0;",
            f"for (int tap = 0, {tap}; ({tap} = next_pixel(&{window}, {pixel}, &tap)) >= 0; "
            f"{count}++) {{",
            *(f"    {call}" for call in calls),
            "}",
            *self._call_channelwise(number, target, count),
        ]

    def _multiply_kernel(self, number, target, pixel):
        """Writes a convolution, or a dense layer, which is a convolution of one pixel."""
        step, size = self._steps[number], self.shapes[number][-1]
        (source,), groups = step.inputs, step.attributes.get("groups", 1)
        kind, channels = self._kinds[source], self.shapes[source][-1]
        window = self._declare_window(number, channels=channels, groups=groups)
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
        border, pad_value = "ZERO_BORDER", step.attributes.get("pad_value", 0)
        if pad_value:
            values = np.full(channels, pad_value, "f4")
            values = values > 0 if kind == "bits" else values
            border = self.constants.add(f"border_{number}", values)
        kernel = self.constants.add(f"kernel_{number}", kernel)
        image = self._stored[source], f"&{window}", pixel
        call = _call(function, *image, kernel, border, size, target)
        return [call, *self._call_channelwise(number, target)]

    def _declare_window(self, number, channels=0, groups=0):
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
        # The border before the image shifts indices; `find_pixel` recognizes the border after it.
        pads = [pad[0] for pad in step.attributes.get("pads", [])]
        sizes = {**step.attributes, "image": image, "pads": pads}
        names = ("image", "size", "strides", "dilation", "pads")
        fields = {name: format_pair(sizes.get(name, []), int(name != "pads")) for name in names}
        fields |= {"output_width": [1, *outputs][-1], "channels": channels, "groups": groups}
        # In the order of `window_t`: C++ before 2020 has no initializers by name.
        texts = [f"/* {name} */ {value}" for name, value in fields.items()]
        self.constants.declare(f"window_t window_{number}", texts, 13)
        return f"window_{number}"


def _call(function, *arguments):
    """Returns a call of a function of the C frame."""
    return f"{function}({', '.join(map(str, arguments))});"


def _offset(buffer, size, pixel):
    """Returns the address of the values of a pixel."""
    return f"{buffer} + {pixel}" if size == 1 else f"{buffer} + {size} * {pixel}"


def _count_words(size, kind):
    """Returns the number of C numbers or words of the values of a pixel."""
    return -(-size // 32) if kind == "bits" else size
