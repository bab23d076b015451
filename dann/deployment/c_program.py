"""A packed program as the body of a C function: loops over places, each of a few calls."""

import math
import re
from collections.abc import Sequence

import numpy as np

from dann.deployment.c_constants import Constants, words_of
from dann.deployment.runtime import Step, outputs_of
from dann.deployment.tracing import PackError

TYPES = {"float": "float", "int": "int32_t", "bits": "uint32_t"}
# The arrays that hold one row, and what turns a row into one of another kind.
_ROWS = {"float": "values", "int": "sums", "bits": "signs"}
_TURNS = {("bits", "float"): "to_signs", ("int", "float"): "to_floats", ("float", "int"): "to_sums"}
# What is done to a row at a place: by the operation, or for each array of it.
_CALLS = {
    "activation": "apply_{function}({size}, {target})",
    "sign": "take_signs({source}, {size}, {target})",
    "threshold": "compare({source}, {thresholds}, {flips}, {size}, {target})",
    "scale": "scale({scale}, {size}, {target})",
    "offset": "add({offset}, {size}, {target})",
    "slopes": "prelu({slopes}, {size}, {target})",
}
_OF_ONE_PLACE = ("activation", "affine", "prelu", "sign", "signs", "threshold")


class CProgram:
    """Writes the loops of a program.

    A step is computed in the loop of the one step that reads it, if that one treats each place by
    itself or is a max pooling of windows that share no pixel. The outputs of the others are stored,
    sums of signs as floats, which hold them exactly.

    Of a stranger's program only numbers and letters get into the C, and its sizes are those that
    NumPy finds when it runs the program; if they contradict each other, it raises an error.
    """

    def __init__(self, steps: Sequence[Step]):
        self.constants = Constants()
        self.lines: list[str] = []
        self.arrays: dict[str, tuple[str, int]] = {}  # kind and size of all buffers, by name
        self.macs = {"bits": 0, "float": 0}
        self.shapes = _checked_shapes(steps)
        self._steps = steps
        self._readers: list[list[int]] = [[] for _ in steps]
        for number, step in enumerate(steps):
            for one in step.inputs:
                self._readers[one].append(number)
        self._kinds: list[str] = []
        self._joined: list[bool] = []  # whether a step is computed in the loop of its reader
        for number, step in enumerate(steps):
            self._kinds.append(self._kind_of(step))
            self._joined.append(self._joins(number, step))
        self._buffers = {0: "input"}  # where the outputs of steps are stored
        self._written: list[int] = []  # the steps that are computed so far
        for number, step in enumerate(steps[1:], start=1):
            if not self._joined[number]:
                self._store(number, step)
        self._loop(len(steps) - 1, "float", "output")

    def _kind_of(self, step):
        kinds = {self._kinds[one] for one in step.inputs}
        if step.op in ("sign", "threshold") or (step.op == "concatenate" and kinds == {"bits"}):
            return "bits"
        if step.op in ("max_pool", "reshape"):
            (one,) = step.inputs
            return self._kinds[one] if self._joined[one] else self._stored_kind(one)
        return "int" if step.op.startswith("binary") else "float"

    def _joins(self, number, step):
        if step.op in ("input", "reshape"):
            return False
        if number == len(self._steps) - 1:
            return True
        reader, *others = (self._steps[one] for one in self._readers[number] or [0])
        if others or reader.op not in ("add", "max_pool"):
            return not others and reader.op in _OF_ONE_PLACE
        if reader.op == "add":
            return reader.inputs[0] == number
        windows, is_image = reader.attributes, len(reader.shape) < 4
        apart = windows["strides"] == windows["size"] and not np.any(windows["pads"])
        return apart and is_image and self._kinds[number] != "bits"

    def _sizes(self, number):
        """How many places the output of a step has, and how many numbers a place."""
        *places, size = self.shapes[number]
        return math.prod(places), size

    def _stored_kind(self, number):
        return "bits" if self._kinds[number] == "bits" else "float"

    def _store(self, number, step):
        kind, (places, size) = self._stored_kind(number), self._sizes(number)
        stays = step.op == "reshape" and kind == "float"
        source = step.inputs[0]
        buffer = self._buffers[source] if stays else self._buffer(kind, places * _words(size, kind))
        if step.op != "reshape":
            self._loop(number, kind, buffer)
        elif kind == "bits":
            old_places, old_size = self._sizes(source)
            sizes = f"{old_size}, {old_places * old_size}, {size}"
            self._comment([number], number)
            self.lines.append(f"    lay_anew({self._buffers[source]}, {sizes}, {buffer});")
        self._written.append(number)
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
        """Writes the loop that ends with the output of a step in a buffer."""
        (places, size), before = self._sizes(number), len(self._written)
        calls = self._row(number, kind, f"{buffer} + {_words(size, kind)} * place", "place")
        self._comment(self._written[before:], number)
        self.lines.append(f"    for (int place = 0; place < {places}; place++) {{")
        self.lines += [*(f"        {call}" for call in calls), "    }"]

    def _comment(self, numbers, last):
        layers = dict.fromkeys(self._steps[one].layer for one in numbers)
        text = f"{', '.join(layers)} -- {' x '.join(map(str, self._sizes(last)))}"
        text = re.sub(r"[^\w/., -]", "_", text, flags=re.ASCII)  # no end of the comment
        self.lines += ["", f"    /* {text} */"]

    def _row(self, number, kind, target, place):
        """The calls that write the output of a step at a place, in a kind, to a target."""
        step, size, own, calls = (
            self._steps[number],
            self._sizes(number)[1],
            self._kinds[number],
            [],
        )
        if number in self._buffers:
            own = self._stored_kind(number)
            source = f"{self._buffers[number]} + {_words(size, own)} * {place}"
        elif own == kind:
            method = getattr(self, f"_{step.op}", self._of_one_place)
            calls = method(step, size, target, place)
            self._written.append(number)
            return calls
        else:
            source = self._array(_ROWS[own], own, _words(size, own))
            calls = self._row(number, own, source, place)
        if own == kind:
            return [f"memcpy({target}, {source}, {_words(size, own)} * sizeof({TYPES[own]}));"]
        return [*calls, f"{_TURNS[own, kind]}({source}, {size}, {target});"]

    def _of_one_place(self, step, size, target, place):
        kind, source = "int" if step.op == "threshold" else "float", target
        if step.op in ("sign", "threshold"):
            source = self._array(_ROWS[kind], kind, size)
        texts = {
            name: self.constants.add(step.layer, name, np.broadcast_to(values, (size,)))
            for name, values in step.arrays.items()
        }
        texts |= {"source": source, "target": target, "size": size}
        texts["function"] = step.attributes.get("function")
        calls = [text for name, text in _CALLS.items() if name in (step.op, *step.arrays)]
        row = self._row(step.inputs[0], kind, source, place)
        return [*row, *(f"{call.format(**texts)};" for call in calls)]

    def _add(self, step, size, target, place):
        calls = self._row(step.inputs[0], "float", target, place)
        for one in step.inputs[1:]:
            other = self._array("other", "float", size)
            calls += self._row(one, "float", other, place)
            calls.append(f"add({other}, {size}, {target});")
        return calls

    def _concatenate(self, step, size, target, place):
        bits = all(self._kinds[one] == "bits" for one in step.inputs)
        values = self._array("values", "float", size) if bits else target
        calls, first = [], 0
        for one in step.inputs:
            calls += self._row(one, "float", f"{values} + {first}", place)
            first += self._sizes(one)[1]
        return [*calls, f"take_signs({values}, {size}, {target});"] if bits else calls

    def _max_pool(self, step, size, target, place):
        (source,) = step.inputs
        kind = self._kinds[source]
        if not self._joined[source]:
            name = "find_any" if kind == "bits" else "find_largest"
            name = "find_mean" if step.op == "average_pool" else name
            window, _ = self._window(step, 1)
            return [f"{name}({self._buffers[source]}, &{window}, {place}, {target});"]
        row, pixel = self._array(_ROWS[kind], kind, size), f"pixel_of_{place}"
        largest = self._array(f"largest_{row}_at_{place}", kind, size)
        width, across = _pair(self.shapes[source][:-1])[1], _pair(step.shape[:-1])[1]
        down, right = _pair(step.attributes["size"])
        y = f"{place} / {across} * {down} + tap / {right}"
        x = f"{place} % {across} * {right} + tap % {right}"
        return [
            f"for (int tap = 0; tap < {down * right}; tap++) {{",
            f"    int {pixel} = ({y}) * {width} + {x};",
            *(f"    {call}" for call in self._row(source, kind, row, pixel)),
            f"    keep_larger_{row}(tap == 0, {row}, {size}, {largest});",
            "}",
            f"memcpy({target}, {largest}, {size} * sizeof({TYPES[kind]}));",
        ]

    _average_pool = _max_pool

    def _dense(self, step, size, target, place):
        """Convolutions, and dense layers, which are convolutions of one pixel."""
        (source,), groups = step.inputs, step.attributes.get("groups", 1)
        kind, channels = self._stored_kind(source), self._sizes(source)[1]
        window, taps = self._window(step, groups)
        self.macs[kind] += math.prod(step.shape) * taps * channels // groups
        kernel = step.arrays["kernel"].reshape(taps, channels // groups, size)
        function = "multiply" if kernel.dtype == "f4" else "multiply_signs"
        if kind == "bits":
            function = "multiply_bits" if groups == 1 else "multiply_bits_in_groups"
        if function == "multiply_bits":
            kernel = words_of(kernel.transpose(0, 2, 1) > 0).transpose(0, 2, 1)
        elif function != "multiply":
            kernel = kernel > 0
        border, value = "NULL", step.attributes.get("pad_value", 0)
        if value:
            values = np.full(channels, value, "f4")
            values = values > 0 if kind == "bits" else values
            border = self.constants.add(step.layer, "border", values)
        kernel = self.constants.add(step.layer, "kernel", kernel)
        image = f"{self._buffers[source]}, &{window}, {place}"
        calls = [f"{function}({image}, {kernel}, {border}, {size}, {target});"]
        if "bias" in step.arrays:
            bias = np.broadcast_to(step.arrays["bias"], (size,))
            calls.append(f"add({self.constants.add(step.layer, 'bias', bias)}, {size}, {target});")
        return calls

    _binary_dense = _binary_conv = _conv = _dense

    def _window(self, step, groups):
        """The name of the window of a step, and how many pixels it has."""
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
        geometry = [*_pair(image), channels, *size, *strides, *dilation, *before]
        geometry = np.array([*geometry, _pair(outputs)[1], groups])
        return self.constants.add(step.layer, "window", geometry, "window_t"), math.prod(size)


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
