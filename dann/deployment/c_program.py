"""A packed program as the body of a C function: loops over places, each of a few calls."""

import math
import re
from collections.abc import Sequence

import numpy as np

from dann.deployment.folding import kind_of
from dann.deployment.packing import pack_bits
from dann.deployment.runtime import Step, outputs_of
from dann.deployment.tracing import PackError

TYPES = {"float": "float", "bits": "uint32_t"}
# What is done to a row at a place: by the operation, or for each array of it.
_CALLS = {
    "activation": "apply_{function}({size}, {target})",
    "sign": "take_signs({source}, {size}, {target})",
    "threshold": "compare({source}, {thresholds}, {flips}, {size}, {target})",
    "scale": "multiply({scale}, {size}, {target})",
    "offset": "add({offset}, {size}, {target})",
    "slopes": "prelu({slopes}, {size}, {target})",
}
_OF_ONE_PLACE = ("activation", "affine", "prelu", "sign", "signs", "threshold")


class CProgram:
    """Writes the loops of a program.

    A row is what a step gives at one place: numbers, or signs as bits. Sums of signs are numbers,
    which hold them exactly. A step is computed in the loop of the one step that reads it, if that
    one treats each place by itself or pools windows that share no pixel. The rows of the others are
    stored.

    Of a stranger's program only numbers and letters get into the C, and its sizes are those that
    NumPy finds when it runs the program; if they contradict each other, it raises an error.
    """

    def __init__(self, steps: Sequence[Step]):
        self.constants = _Constants()
        self.lines: list[str] = []
        self.arrays: dict[str, tuple[str, int]] = {}  # kind and size of all buffers, by name
        self.shapes = _checked_shapes(steps)
        self._steps = steps
        self._readers: list[list[int]] = [[] for _ in steps]
        self._kinds: list[str] = []
        for number, step in enumerate(steps):
            for one in step.inputs:
                self._readers[one].append(number)
            kind = kind_of(step.op, {self._kinds[one] for one in step.inputs})
            self._kinds.append("bits" if kind == "bits" else "float")
        self._buffers = {0: "input"}  # where the rows of steps are stored
        self._written: list[int] = []  # the steps that are computed so far
        for number, step in enumerate(steps[1:], start=1):
            if not self._joins(number, step):
                self._store(number, step)
        self._loop(len(steps) - 1, "float", "output")

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
        if step.op == "reshape" and kind == "float":
            buffer = self._buffers[step.inputs[0]]
            self._written.append(number)
        else:
            buffer = self._buffer(kind, math.prod(places) * _words(size, kind))
            self._loop(number, kind, buffer)
        self._buffers[number] = buffer

    def _buffer(self, kind, size):
        """A new buffer, or one that no step reads any more."""
        written = set(self._written)
        used = {name for one, name in self._buffers.items() if set(self._readers[one]) - written}
        names = [name for name in self.arrays if name.startswith(f"{kind}_") and name not in used]
        new = f"{kind}_{len(self.arrays)}"
        return self._array(max(names, key=lambda one: self.arrays[one][1], default=new), kind, size)

    def _array(self, name, kind, size):
        self.arrays[name] = kind, max(size, self.arrays.get(name, (kind, 0))[1])
        return name

    def _loop(self, number, kind, buffer):
        """Writes the loop that ends with the rows of a step in a buffer."""
        (*places, size), before = self.shapes[number], len(self._written)
        calls = self._row(number, kind, f"{buffer} + {_words(size, kind)} * place", "place")
        layers = dict.fromkeys(self._steps[one].layer for one in self._written[before:])
        comment = f"{', '.join(layers)} -- {math.prod(places)} x {size}"
        comment = re.sub(r"[^\w/., -]", "_", comment, flags=re.ASCII)  # no end of the comment
        head = f"for (int place = 0; place < {math.prod(places)}; place++) {{"
        self.lines += ["", f"/* {comment} */", head, *(f"    {call}" for call in calls), "}"]

    def _row(self, number, kind, target, place):
        """The calls that write the row of a step at a place, in a kind, to a target."""
        step, size, own = self._steps[number], self.shapes[number][-1], self._kinds[number]
        if own != kind:
            calls, signs = self._found(number, own, place, "signs")
            return [*calls, f"to_signs({signs}, {size}, {target});"]
        if number in self._buffers:
            _, row = self._found(number, kind, place, "")
            return [f"memcpy({target}, {row}, {_words(size, kind)} * sizeof({TYPES[kind]}));"]
        method = getattr(self, f"_{step.op}", self._of_one_place)
        calls = method(step, size, target, place)
        self._written.append(number)
        return calls

    def _found(self, number, kind, place, name):
        """The calls that compute the row of a step unless it is stored, and where it is then."""
        size = _words(self.shapes[number][-1], kind)
        if number in self._buffers and self._kinds[number] == kind:
            return [], f"{self._buffers[number]} + {size} * {place}"
        row = self._array(f"{name}_at_{place}", kind, size)
        return self._row(number, kind, row, place), row

    def _of_one_place(self, step, size, target, place):
        calls, source = [], target
        if step.op in ("sign", "threshold"):
            calls, source = self._found(step.inputs[0], "float", place, "values")
        else:
            calls = self._row(step.inputs[0], "float", target, place)
        texts = {**step.attributes, "source": source, "target": target, "size": size}
        for name, values in step.arrays.items():
            texts[name] = self.constants.add(name, np.broadcast_to(values, (size,)))
        own = [text for name, text in _CALLS.items() if name in (step.op, *step.arrays)]
        return [*calls, *(f"{call.format(**texts)};" for call in own)]

    def _add(self, step, size, target, place):
        """Sums and products, to whose first input the others may be broadcast."""
        whole, shapes = tuple(step.shape), [self.shapes[one] for one in step.inputs]
        images = {whole[:-1], (1,) * len(whole[:-1])}
        fit = all(shape[:-1] in images and shape[-1] in (1, size) for shape in shapes)
        if shapes[0] != whole or not fit:
            raise PackError(f"Layer {step.layer!r} joins shapes for which there is no C: {shapes}")
        calls = self._row(step.inputs[0], "float", target, place)
        for one, shape in zip(step.inputs[1:], shapes[1:], strict=True):
            at = place if shape[:-1] == whole[:-1] else "0"
            more, other = self._found(one, "float", at, "other")
            function = f"{step.op}_one" if shape[-1] < size else step.op
            calls += [*more, f"{function}({other}, {size}, {target});"]
        return calls

    _multiply = _add

    def _concatenate(self, step, size, target, place):
        bits = all(self._kinds[one] == "bits" for one in step.inputs)
        values = self._array(f"values_at_{place}", "float", size) if bits else target
        calls, first = [], 0
        for one in step.inputs:
            calls += self._row(one, "float", f"{values} + {first}", place)
            first += self.shapes[one][-1]
        return [*calls, f"take_signs({values}, {size}, {target});"] if bits else calls

    def _reshape(self, step, size, target, place):
        (source,) = step.inputs
        rows = f"{self._buffers[source]}, {self.shapes[source][-1]}"
        return [f"lay_anew({rows}, {size} * {place}, {size}, {target});"]

    def _max_pool(self, step, size, target, place):
        (source,) = step.inputs
        window, (rows, columns) = self._window(step, 1)
        kind = self._kinds[source] if step.op == "max_pool" else "float"
        keep = "keep_sum" if step.op == "average_pool" else f"keep_largest_{kind}"
        pixel, count = f"pixel_at_{place}", f"count_at_{place}"
        calls, row = self._found(source, kind, pixel, "row")
        calls = [*calls, f"{keep}({row}, {count}++, {_words(size, kind)}, {target});"]
        mean = [f"divide({count}, {size}, {target});"] if step.op == "average_pool" else []
        return [
            f"int {count} = 0;",
            f"for (int tap = 0; tap < {rows * columns}; tap++) {{",
            f"    int {pixel} = find_pixel(&{window}, {place}, tap / {columns}, tap % {columns});",
            f"    if ({pixel} < 0)",
            "        continue;",
            *(f"    {call}" for call in calls),
            "}",
            *mean,
        ]

    _average_pool = _max_pool

    def _dense(self, step, size, target, place):
        """Convolutions, and dense layers, which are convolutions of one pixel."""
        (source,), groups = step.inputs, step.attributes.get("groups", 1)
        kind, channels = self._kinds[source], self.shapes[source][-1]
        window, taps = self._window(step, groups)
        kernel = step.arrays["kernel"].reshape(math.prod(taps), channels // groups, size)
        function = "multiply_numbers" if kernel.dtype == "f4" else "multiply_signs"
        if kind == "bits":
            function = "multiply_bits" if groups == 1 else "multiply_bits_in_groups"
        if function == "multiply_bits":
            kernel = _words_of(kernel.transpose(0, 2, 1) > 0).transpose(0, 2, 1)
        elif function != "multiply_numbers":
            kernel = kernel > 0
        border, value = "NULL", step.attributes.get("pad_value", 0)
        if value:
            values = np.full(channels, value, "f4")
            border = self.constants.add("border", values > 0 if kind == "bits" else values)
        kernel = self.constants.add("kernel", kernel)
        image = f"{self._buffers[source]}, &{window}, {place}"
        calls = [f"{function}({image}, {kernel}, {border}, {size}, {target});"]
        if "bias" in step.arrays:
            bias = np.broadcast_to(step.arrays["bias"], (size,))
            calls.append(f"add({self.constants.add('bias', bias)}, {size}, {target});")
        return calls

    _binary_dense = _binary_conv = _conv = _dense

    def _window(self, step, groups):
        """The name of the window of a step, and its rows and columns."""
        *image, channels = self.shapes[step.inputs[0]]
        outputs, attributes = step.shape[:-1], step.attributes
        if "size" not in attributes:
            image, outputs = [math.prod(image)], [math.prod(outputs)]
        if len(image) > 2:
            raise PackError(f"Layer {step.layer!r} has 3 spatial axes, for which there is no C")
        size, strides, dilation = (
            _pair(attributes.get(name, [])) for name in ("size", "strides", "dilation")
        )
        before = _pair([pad[0] for pad in attributes.get("pads", [])], 0)
        numbers = [*_pair(image), channels, *size, *strides, *dilation, *before, _pair(outputs)[1]]
        return self.constants.add("window", np.array([*numbers, groups]), "window_t"), size


def _words_of(signs: np.ndarray) -> np.ndarray:
    """Packs booleans `(..., n)` into 32-bit words `(..., words)`, the first in the lowest bit."""
    words = pack_bits(signs).view("<u4")  # twice as many as 64-bit words
    return words[..., : -(-signs.shape[-1] // 32)]


class _Constants:
    """Constants with numbers in their names; what is there already is not repeated."""

    def __init__(self):
        self.lines: list[str] = []
        self.bytes = 0
        self._names: dict[str, str] = {}

    def add(self, what: str, values: np.ndarray, struct: str = "") -> str:
        """Adds an array, booleans as bits, or the numbers of a struct; returns its name."""
        values = _words_of(values) if values.dtype == bool else values
        literals = [_literal(value) for value in values.ravel()]
        rows = [", ".join(literals[start : start + 8]) for start in range(0, len(literals), 8)]
        text = "\n".join([what, *(f"    {row}," for row in rows), "};", ""])
        if text not in self._names:
            name = self._names[text] = f"{what}_{len(self._names)}"
            kind = "uint32_t" if values.dtype.kind == "u" else "float"
            aligned = " DANN_ALIGNED" * (what == "kernel")
            declared = f"{struct} {name}" if struct else f"{kind} {name}[]{aligned}"
            self.lines.append(f"static const {declared} = {{{text.removeprefix(what)}")
            self.bytes += 4 * values.size
        return self._names[text]


def _literal(value: np.generic) -> str:
    """Returns a number in C, exactly."""
    if value.dtype.kind == "f":
        return f"{value:.8e}f"
    return f"0x{value:08x}u" if value.dtype.kind == "u" else str(value)


def _checked_shapes(steps):
    """The shapes of the outputs that NumPy finds, if they are those that the steps tell."""
    with np.errstate(all="ignore"):
        outputs = outputs_of(steps, np.zeros((1, *steps[0].shape), "float32"))
    for number, step in enumerate(steps):
        if outputs[number].shape != (1, *step.shape):
            raise ValueError(f"Operation {step.op} of {step.layer!r} contradicts its inputs")
    return [outputs[number].shape[1:] for number in range(len(steps))]


def _pair(values, default=1):
    """The numbers of two axes; what has one axis is one row of pixels."""
    first, second = [default, default, *values][-2:]
    return first, second


def _words(size, kind):
    """How many numbers of C a row of a kind takes."""
    return -(-size // 32) if kind == "bits" else size
