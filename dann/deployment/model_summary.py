"""The size and the operations of a classifier as a packed file, layer by layer."""

import dataclasses
import math
from collections.abc import Sequence

import keras

from dann.deployment.estimate import estimated
from dann.deployment.folding import fold
from dann.deployment.packed_file import size_beside_arrays, stored_arrays
from dann.deployment.packing import PackError, lowered, network_of
from dann.layers import BinarySign

# These give signs if they get signs.
_OF_SIGNS = ("max_pool", "reshape")


@dataclasses.dataclass(frozen=True)
class LayerSummary:
    """The size and the operations of one layer.

    Args:
        name: Name of the layer, after those of the models that it is nested in.
        shape: Shape of its output, without the batch.
        precision: `"1 bit"` or `"float32"` for a kernel, `"int32"` for thresholds (their flips take
            a bit each), `""` if nothing is stored; in an estimate also `"2 bits"` and so on.
        bits: Bits that its weights need, without the unused bits of the last words.
        bytes: Bytes of its arrays in the file. Weights that the file holds once, because a layer
            is called twice, count once.
        binary_macs: Multiply-accumulates of signs with signs for one input, over all its calls, in
            any engine; `None` if not known.
        float_macs: The other multiply-accumulates of its kernel; scaling and shifting channels
            does not count. `None` if not known.
    """

    name: str
    shape: tuple[int, ...]
    precision: str
    bits: int
    bytes: int
    binary_macs: int | None
    float_macs: int | None


@dataclasses.dataclass(frozen=True)
class ModelSummary:
    """The layers of a classifier as a packed file holds them, or would; `str` gives a table.

    Args:
        layers: One entry for each layer, in the order of the computation. A layer that became part
            of a threshold keeps its line, with 0 bytes.
        directory: Bytes of the file's header and of its list of steps; 0 in an estimate.
        float_bytes: Bytes of all weights of the classifier in float32.
        reason: Why the classifier cannot be packed; `None` (default) if it can.
    """

    layers: Sequence[LayerSummary]
    directory: int
    float_bytes: int
    reason: str | None = None

    @property
    def packable(self) -> bool:
        """Whether `dann.deployment.pack` takes the classifier; if not, numbers are estimates."""
        return self.reason is None

    @property
    def bytes(self) -> int:
        """Size of the packed file; in an estimate, of the weights at their precision."""
        return self.directory + sum(layer.bytes for layer in self.layers)

    @property
    def binary_macs(self) -> int:
        """Multiply-accumulates of signs with signs for one input, as far as they are known."""
        return sum(layer.binary_macs or 0 for layer in self.layers)

    @property
    def float_macs(self) -> int:
        """The other multiply-accumulates of kernels for one input, as far as they are known."""
        return sum(layer.float_macs or 0 for layer in self.layers)

    def __str__(self) -> str:
        head = ("layer", "shape", "precision", "bits", "bytes", "binary MACs", "float MACs")
        rows = [head, *(_cells(layer) for layer in self.layers)]
        if self.packable:
            rows.append(("header and steps", "", "", "", f"{self.directory:,}", "", ""))
        bits = sum(layer.bits for layer in self.layers)
        more = " + ?" if any(layer.float_macs is None for layer in self.layers) else ""
        macs = (f"{self.binary_macs:,}{more}", f"{self.float_macs:,}{more}")
        rows.append(("total", "", "", f"{bits:,}", f"{self.bytes:,}", *macs))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) if place < 3 else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        ratio = self.float_bytes / max(self.bytes, 1)
        whole = "file" if self.packable else "estimate"
        lines.append(f"float32 weights: {self.float_bytes:,} bytes, {ratio:.1f} times the {whole}")
        if not self.packable:
            lines.append(f"An estimate, because it cannot be packed: {self.reason}")
        return "\n".join(lines)


def summarize(classifier: keras.Model) -> ModelSummary:
    """Summarizes the size and the operations of every layer of a classifier.

    Args:
        classifier: A built model, or a method of `dann.adaptation`, whose `classifier` it takes.

    Returns:
        A table. If `dann.deployment.pack` takes the classifier, `bytes` is the size of the file.
        If not, each layer is counted from its own weights, `bytes` is an estimate, and `reason`
        says why the classifier cannot be packed.

    Raises:
        PackError: If the model is not built.
        TypeError: If `classifier` is not a Keras model.

    Example:

    >>> import keras
    >>> from dann.deployment import summarize
    >>> from dann.layers import BinaryDense
    >>> summary = summarize(keras.Sequential([keras.Input((64,)), BinaryDense(2, use_bias=False)]))
    >>> summary.layers[0].precision, summary.layers[0].bits, summary.layers[0].binary_macs
    ('1 bit', 128, 128)
    """
    model = network_of(classifier)
    try:
        plain = lowered(model)
    except PackError as error:
        if not model.built:
            raise
        return ModelSummary(
            [LayerSummary(*row) for row in estimated(model)], 0, _float_bytes(model), str(error)
        )
    program = fold(plain)
    names = dict.fromkeys(step.layer for step in plain.steps[1:])
    stored = list(zip(program.steps, stored_arrays(program), strict=True))
    layers = []
    for name in names:
        shape = [step.shape for step in plain.steps if step.layer == name][-1]
        own = [(step, arrays) for step, arrays in stored if step.layer == name]
        layers.append(_summary(name, shape, own, program.steps))
    return ModelSummary(layers, size_beside_arrays(program), _float_bytes(model))


def _float_bytes(model):
    """Bytes in float32 of the weights that inference needs: no schedules, no seeds."""
    signs = [layer for layer in model._flatten_layers() if isinstance(layer, BinarySign)]
    unneeded = {id(weight) for layer in signs for weight in (layer.step, layer.sharpness)}
    kept = [
        weight
        for weight in model.weights
        if "float" in str(weight.dtype) and id(weight) not in unneeded
    ]
    return 4 * sum(math.prod(weight.shape) for weight in kept)


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
    """Bits that the stored arrays of a step need, without the unused bits of the last words."""
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
    return (layer.name, shape, layer.precision, *map(_cell, numbers))


def _cell(number):
    return "?" if number is None else f"{number:,}" if number else ""
