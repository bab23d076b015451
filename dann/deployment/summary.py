"""What a classifier weighs and computes, layer by layer, as a packed file holds it."""

import dataclasses
import math
from collections.abc import Sequence

import keras

from dann.deployment.folding import fold
from dann.deployment.packed_file import size_beside_arrays, stored_arrays
from dann.deployment.packing import lowered

# What gives signs if it is given signs.
_OF_SIGNS = ("max_pool", "reshape")


@dataclasses.dataclass(frozen=True)
class LayerSummary:
    """What one layer weighs and computes.

    Args:
        name: Name of the layer, after those of the models that it is nested in.
        shape: Shape of its output, without the batch.
        precision: `"1 bit"` or `"float32"` for a kernel, `"int32"` for thresholds (their flips take
            a bit each), `""` where nothing is stored.
        bits: Bits that its weights need, without the rest of the last words.
        bytes: Bytes that its arrays take in the file. What the file holds once, as the weights of
            a layer that is called twice, is counted once.
        binary_macs: Multiply-accumulates of signs with signs for one input, of all its calls,
            whatever an engine computes them by.
        float_macs: The others, of its kernel; scaling and shifting channels is not counted.
    """

    name: str
    shape: tuple[int, ...]
    precision: str
    bits: int
    bytes: int
    binary_macs: int
    float_macs: int


@dataclasses.dataclass(frozen=True)
class ModelSummary:
    """The layers of a classifier as a packed file holds them; `str` gives a table.

    Args:
        layers: One entry a layer, in the order of the computation. One that a threshold has taken
            in keeps its line, without bytes.
        directory: Bytes of the file's header and of its list of steps.
        float_bytes: Bytes of all weights of the classifier in float32.
    """

    layers: Sequence[LayerSummary]
    directory: int
    float_bytes: int

    @property
    def bytes(self) -> int:
        """Size of the packed file."""
        return self.directory + sum(layer.bytes for layer in self.layers)

    @property
    def binary_macs(self) -> int:
        """Multiply-accumulates of signs with signs for one input."""
        return sum(layer.binary_macs for layer in self.layers)

    @property
    def float_macs(self) -> int:
        """The other multiply-accumulates of kernels for one input."""
        return sum(layer.float_macs for layer in self.layers)

    def __str__(self) -> str:
        head = ("layer", "shape", "precision", "bits", "bytes", "binary MACs", "float MACs")
        rows = [head, *(_cells(layer) for layer in self.layers)]
        rows.append(("header and steps", "", "", "", f"{self.directory:,}", "", ""))
        bits = sum(layer.bits for layer in self.layers)
        totals = (f"{n:,}" for n in (bits, self.bytes, self.binary_macs, self.float_macs))
        rows.append(("total", "", "", *totals))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) if place < 3 else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        ratio = self.float_bytes / self.bytes
        lines.append(f"float32 weights: {self.float_bytes:,} bytes, {ratio:.1f} times the file")
        return "\n".join(lines)


def summarize(classifier: keras.Model) -> ModelSummary:
    """Tells what every layer of a classifier weighs and computes.

    Args:
        classifier: What `dann.deployment.pack` takes.

    Returns:
        A table; its `bytes` are the size of the file that `pack` writes.

    Raises:
        PackError: If a layer cannot be packed.

    Example:

    >>> import keras
    >>> from dann.deployment import summarize
    >>> from dann.layers import BinaryDense
    >>> summary = summarize(keras.Sequential([keras.Input((64,)), BinaryDense(2, use_bias=False)]))
    >>> summary.layers[0].precision, summary.layers[0].bits, summary.layers[0].binary_macs
    ('1 bit', 128, 128)
    """
    model, plain = lowered(classifier)
    program = fold(plain)
    names = dict.fromkeys(step.layer for step in plain.steps[1:])
    stored = list(zip(program.steps, stored_arrays(program), strict=True))
    layers = []
    for name in names:
        shape = [step.shape for step in plain.steps if step.layer == name][-1]
        own = [(step, arrays) for step, arrays in stored if step.layer == name]
        layers.append(_summary(name, shape, own, program.steps))
    float_bytes = 4 * sum(math.prod(weight.shape) for weight in _weights(model))
    return ModelSummary(layers, size_beside_arrays(program), float_bytes)


def _weights(model):
    """Weights that inference needs: no counters, no seeds."""
    return [weight for weight in model.weights if "float" in str(weight.dtype)]


def _summary(name, shape, own, steps):
    arrays = {key for step, _ in own for key in step.arrays}
    precision = ""
    if arrays:
        precision = "float32"
    if "thresholds" in arrays:
        precision = "int32"
    if "kernel_bits" in arrays:
        precision = "1 bit"
    macs = dict.fromkeys((True, False), 0)
    for step, _ in own:
        binary = "kernel_bits" in step.arrays and _gives_signs(steps, step.inputs[0])
        macs[binary] += step.attributes.get("macs", 0)
    return LayerSummary(
        name,
        tuple(shape),
        precision,
        sum(_bits(step, stored) for step, stored in own),
        sum(array.nbytes for _, stored in own for array in stored.values()),
        macs[True],
        macs[False],
    )


def _gives_signs(steps, number):
    while steps[number].op in _OF_SIGNS:
        (number,) = steps[number].inputs
    return steps[number].kind == "bits" or steps[number].op == "signs"


def _bits(step, stored):
    """Bits that the stored arrays of a step need: the rest of their last words left out."""
    total = 0
    for name, array in stored.items():
        if name == "kernel_bits":
            total += array.shape[0] * step.attributes["fan_in"]
        elif name == "flips":
            total += step.shape[-1]
        else:
            total += 8 * array.nbytes
    return total


def _cells(layer):
    numbers = (layer.bits, layer.bytes, layer.binary_macs, layer.float_macs)
    shape = " x ".join(map(str, layer.shape))
    return (layer.name, shape, layer.precision, *(f"{n:,}" if n else "" for n in numbers))
