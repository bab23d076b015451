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
_LARGEST = {"float": ("largest", "keep_larger"), "int": ("largest_sums", "keep_larger_sums")}
_AFFINE = {"scale": "scale", "offset": "add", "slopes": "prelu"}
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
        self.arrays: dict[str, list] = {}  # kind and size of all buffers, by name
        self.macs = {"bits": 0, "float": 0}
        self.shapes = _checked_shapes(steps)
        self._steps = steps
        self._readers: list[list[int]] = [[] for _ in steps]
        for number, step in enumerate(steps):
            for one in step.inputs:
                self._readers[one].append(number)
        self._kinds: list[str] = []
        self._joined: list[bool] = []  # whether a step is computed in the loop of its reader
        self._pools: list[bool] = []  # whether a pooling is in the loop up to this step
        for number, step in enumerate(steps):
            self._join(number, step)
        self._last_reads = self._find_last_reads()
        self._buffers = {0: "input"}  # where the outputs of steps are stored
        self._layers: list[str] = []  # of the loop that is written
        for number, step in enumerate(steps[1:], start=1):
            if not self._joined[number]:
                self._store(number, step)
        self._loop(len(steps) - 1, "float", "output")

    def _join(self, number, step):
        joined = [one for one in step.inputs if self._joined[one]]
        pools = any(self._pools[one] or step.op == "max_pool" for one in joined)
        kinds = [self._kinds[one] for one in step.inputs]
        self._kinds.append(_kind_of(step, kinds, bool(joined)))
        readers = [self._steps[reader] for reader in self._readers[number]]
        joins = number == len(self._steps) - 1 or (
            len(readers) == 1
            and (
                readers[0].op in _OF_ONE_PLACE
                or (readers[0].op == "add" and readers[0].inputs[0] == number)
                or (self._is_apart(readers[0], number) and not pools)
            )
        )
        self._joined.append(joins and step.op not in ("input", "reshape"))
        self._pools.append(pools)

    def _is_apart(self, pool, number):
        """Whether it is a max pooling of numbers whose windows share no pixel."""
        return (
            pool.op == "max_pool"
            and self._kinds[number] != "bits"
            and pool.attributes["strides"] == pool.attributes["size"]
            and not np.any(pool.attributes["pads"])
            and len(pool.shape) < 4
        )

    def _find_last_reads(self):
        """For each step, the number of the last loop that reads its output."""
        loops, last = {}, {}
        for number in range(len(self._steps) - 1, -1, -1):
            readers = self._readers[number]
            loops[number] = number
            if self._joined[number]:
                loops[number] = loops[readers[0]] if readers else len(self._steps)
            # Reshaped numbers stay in their buffer.
            reads = [(last if self._steps[one].op == "reshape" else loops)[one] for one in readers]
            last[number] = max(reads, default=loops[number])
        return last

    def _sizes(self, number):
        """How many places the output of a step has, and how many numbers a place."""
        *places, size = self.shapes[number]
        return math.prod(places), size

    def _stored_kind(self, number):
        return "bits" if self._kinds[number] == "bits" else "float"

    def _store(self, number, step):
        kind, (places, size) = self._stored_kind(number), self._sizes(number)
        if step.op == "reshape" and kind == "float":
            self._buffers[number] = self._buffers[step.inputs[0]]
            return
        buffer = self._new_buffer(number, kind, places * words(size, kind))
        if step.op == "reshape":
            old_places, old_size = self._sizes(step.inputs[0])
            self._comment([step.layer], f"{places} x {size}")
            sizes = f"{old_size}, {old_places * old_size}, {size}"
            self.lines.append(f"    lay_anew({self._buffers[step.inputs[0]]}, {sizes}, {buffer});")
        else:
            self._loop(number, kind, buffer)
        self._buffers[number] = buffer

    def _new_buffer(self, number, kind, size):
        used = [name for one, name in self._buffers.items() if self._last_reads[one] >= number]
        free = {
            name: known[1]
            for name, known in self.arrays.items()
            if name.startswith(f"stored_{kind}") and name not in used
        }
        name = max(free, key=lambda one: free[one], default=f"stored_{kind}_{len(self.arrays)}")
        return self._array(name, kind, size)

    def _array(self, name, kind, size):
        known = self.arrays.setdefault(name, [kind, 0])
        known[1] = max(known[1], size)
        return name

    def _loop(self, number, kind, buffer):
        """Writes the loop that ends with the output of a step in a buffer."""
        places, size = self._sizes(number)
        self._layers = []
        calls = self._row(number, kind, f"{buffer} + {words(size, kind)} * place", "place")
        self._comment(self._layers, f"{places} x {size}")
        self.lines.append(f"    for (int place = 0; place < {places}; place++) {{")
        self.lines += [*(f"        {call}" for call in calls), "    }"]

    def _comment(self, layers, sizes):
        text = f"{', '.join(dict.fromkeys(layers))} -- {sizes}"
        text = re.sub(r"[^\w/., -]", "_", text, flags=re.ASCII)  # no end of the comment
        self.lines += ["", f"    /* {text} */"]

    def _row(self, number, kind, target, place):
        """The calls that write the output of a step at a place, in a kind, to a target."""
        step, size, own = self._steps[number], self._sizes(number)[1], self._kinds[number]
        calls = []
        if number in self._buffers:
            own = self._stored_kind(number)
            source = f"{self._buffers[number]} + {words(size, own)} * {place}"
        elif own == kind:
            calls = getattr(self, f"_{step.op}")(step, size, target, place)
            self._layers.append(step.layer)
            return calls
        else:
            source = self._array(_ROWS[own], own, words(size, own))
            calls = self._row(number, own, source, place)
        if own == kind:
            return [f"memcpy({target}, {source}, {words(size, own)} * sizeof({TYPES[own]}));"]
        return [*calls, f"{_TURNS[own, kind]}({source}, {size}, {target});"]

    def _affine(self, step, size, target, place):
        calls = self._row(step.inputs[0], "float", target, place)
        for name in (name for name in _AFFINE if name in step.arrays):
            values = np.broadcast_to(step.arrays[name], (size,))
            array = self.constants.add(step.layer, name, "float", values)
            calls.append(f"{_AFFINE[name]}({array}, {size}, {target});")
        return calls

    _prelu = _affine

    def _activation(self, step, size, target, place):
        calls = self._row(step.inputs[0], "float", target, place)
        return [*calls, f"apply_{step.attributes['function']}({size}, {target});"]

    def _sign(self, step, size, target, place):
        values = self._array("values", "float", size)
        calls = self._row(step.inputs[0], "float", values, place)
        return [*calls, f"take_signs({values}, {size}, {target});"]

    def _signs(self, step, size, target, place):
        return self._row(step.inputs[0], "float", target, place)

    def _threshold(self, step, size, target, place):
        sums = self._array("sums", "int", size)
        flips = self.constants.add(step.layer, "flips", "uint32_t", words_of(step.arrays["flips"]))
        thresholds = np.broadcast_to(step.arrays["thresholds"], (size,))
        array = self.constants.add(step.layer, "thresholds", "int32_t", thresholds)
        calls = self._row(step.inputs[0], "int", sums, place)
        return [*calls, f"compare({sums}, {array}, {flips}, {size}, {target});"]

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
        if not self._joined[source]:
            function = "find_any" if self._kinds[source] == "bits" else "find_largest"
            return self._pool(step, target, place, function)
        kind = self._kinds[source]
        largest, keep = _LARGEST[kind]
        row, largest = (self._array(name, kind, size) for name in (_ROWS[kind], largest))
        width, across = _pair(self.shapes[source][:-1])[1], _pair(step.shape[:-1])[1]
        down, right = _pair(step.attributes["size"])
        y = f"{place} / {across} * {down} + tap / {right}"
        x = f"{place} % {across} * {right} + tap % {right}"
        return [
            f"for (int tap = 0; tap < {down * right}; tap++) {{",
            f"    int pixel = ({y}) * {width} + {x};",
            *(f"    {call}" for call in self._row(source, kind, row, "pixel")),
            f"    {keep}(tap == 0, {row}, {size}, {largest});",
            "}",
            f"memcpy({target}, {largest}, {size} * sizeof({TYPES[kind]}));",
        ]

    def _average_pool(self, step, size, target, place):
        return self._pool(step, target, place, "find_mean")

    def _pool(self, step, target, place, function):
        window, _ = self._window(step, 1)
        return [f"{function}({self._buffers[step.inputs[0]]}, &{window}, {place}, {target});"]

    def _dense(self, step, size, target, place):
        """Convolutions, and dense layers, which are convolutions of one pixel."""
        (source,), groups = step.inputs, step.attributes.get("groups", 1)
        bits, channels = self._kinds[source] == "bits", self._sizes(source)[1]
        window, taps = self._window(step, groups)
        self.macs["bits" if bits else "float"] += math.prod(step.shape) * taps * channels // groups
        kernel = step.arrays["kernel"].reshape(taps, channels // groups, size)
        function, kind = "multiply", "float"
        if bits and groups == 1:
            function, kind = "multiply_bits", "uint32_t"
            kernel = words_of(kernel.transpose(0, 2, 1) > 0).transpose(0, 2, 1)
        elif bits or kernel.dtype == "int8":
            function, kind = "multiply_bits_in_groups" if bits else "multiply_signs", "uint32_t"
            kernel = words_of(kernel > 0)
        kernel = self.constants.add(step.layer, "kernel", kind, kernel)
        border = self._border(step, channels, bits)
        image = self._buffers[source]
        arguments = f"{image}, &{window}, {place}, {kernel}, {border}, {size}, {target}"
        calls = [f"{function}({arguments});"]
        if "bias" in step.arrays:
            bias = np.broadcast_to(step.arrays["bias"], (size,))
            bias = self.constants.add(step.layer, "bias", "float", bias)
            calls.append(f"add({bias}, {size}, {target});")
        return calls

    _binary_dense = _binary_conv = _conv = _dense

    def _border(self, step, channels, bits):
        value = step.attributes.get("pad_value", 0)
        if not value:
            return "NULL"
        values = np.full(channels, value)
        kind, values = ("uint32_t", words_of(values > 0)) if bits else ("float", values)
        return self.constants.add(step.layer, "border", kind, values)

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
        return self.constants.add(step.layer, "window", "window_t", geometry), math.prod(size)


def _checked_shapes(steps):
    """The shapes of the outputs that NumPy finds, if they are those that the steps tell."""
    with np.errstate(all="ignore"):
        outputs = outputs_of(steps, np.zeros((1, *steps[0].shape), "float32"))
    shapes = []
    for number, step in enumerate(steps):
        shapes.append(outputs[number].shape[1:])
        if outputs[number].shape != (1, *step.shape):
            raise ValueError(f"Operation {step.op} of {step.layer!r} contradicts its inputs")
    return shapes


def _kind_of(step, kinds, joined):
    """The kind of the output of a step, from those of its inputs."""
    if step.op in ("sign", "threshold") or (step.op == "concatenate" and set(kinds) == {"bits"}):
        return "bits"
    if step.op in ("max_pool", "reshape") and (joined or kinds == ["bits"]):
        return kinds[0]
    return "int" if step.op.startswith("binary") else "float"


def _pair(values, default=1):
    """The numbers of two axes; what has one axis is one row of pixels."""
    first, second = [default, default, *values][-2:]
    return first, second


def words(size: int, kind: str) -> int:
    """Returns how many numbers of C a row of a kind takes."""
    return -(-size // 32) if kind == "bits" else size
