"""The bits and the operations of a model, layer by layer."""

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from dann.deployment.graph import PackError, trace
from dann.deployment.packing import lowered, network_of
from dann.layers.binary_layer import BinaryLayer

_KERNELS = ("kernel", "depthwise_kernel", "pointwise_kernel")
_STATE = ("step", "sharpness")  # of a quantizer in training


@dataclasses.dataclass(frozen=True)
class LayerSummary:
    """The weights and the operations of one layer.

    Args:
        name: Name of the layer, after those of the models that it is nested in.
        shape: Shape of its output, without the batch; `()` if not known.
        weights: How many weights there are of each width in bits: 1 for a binary kernel, 32 for a
            float.
        binary_macs: Multiply-accumulates of signs with signs for one input, over all its calls;
            `None` if not known.
        float_macs: The other multiply-accumulates of its kernels. `None` if not known.
    """

    name: str
    shape: tuple[int, ...]
    weights: Mapping[int, int]
    binary_macs: int | None
    float_macs: int | None

    @property
    def bytes(self) -> int:
        """Bytes of its weights."""
        return -(-sum(width * count for width, count in self.weights.items()) // 8)


@dataclasses.dataclass(frozen=True)
class ModelSummary:
    """The layers of a classifier; `str` gives a table.

    Args:
        layers: One entry for each layer.
        reason: Why the classifier cannot be packed; `None` if it can.
    """

    layers: Sequence[LayerSummary]
    reason: str | None = None

    @property
    def bytes(self) -> int:
        """Bytes of all weights, each at its width."""
        return sum(layer.bytes for layer in self.layers)

    @property
    def float_bytes(self) -> int:
        """Bytes of all weights in float32."""
        return 4 * sum(sum(layer.weights.values()) for layer in self.layers)

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [
            ("layer", "shape", "weights", "bytes", "binary MACs", "float MACs")
        ]
        for layer in self.layers:
            weights = (f"{count:,} x {width} bit" for width, count in sorted(layer.weights.items()))
            macs = ("?" if n is None else f"{n:,}" for n in (layer.binary_macs, layer.float_macs))
            shape = " x ".join(map(str, layer.shape))
            rows.append((layer.name, shape, ", ".join(weights), f"{layer.bytes:,}", *macs))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        ratio = self.float_bytes / max(self.bytes, 1)
        lines.append(f"{self.bytes:,} bytes; {self.float_bytes:,} in float32, {ratio:.1f} times")
        return "\n".join(lines + ([f"It cannot be packed: {self.reason}"] if self.reason else []))


def summarize(classifier: keras.Model) -> ModelSummary:
    """Summarizes the bits and the operations of every layer of a classifier.

    It counts the weights of the layers themselves, so it takes any built model. A packed file is a
    little larger or smaller: batch normalization before a sign takes 33 bits a channel there, and
    rows of bits are filled up to whole words.

    Args:
        classifier: A built model, or a method of `dann.adaptation`, whose `classifier` it takes.

    Raises:
        PackError: If the model is not built.
        TypeError: If `classifier` is not a Keras model.

    Example:

    >>> import keras
    >>> from dann.deployment import summarize
    >>> from dann.layers import BinaryDense
    >>> summary = summarize(keras.Sequential([keras.Input((64,)), BinaryDense(2, use_bias=False)]))
    >>> summary.layers[0].weights, summary.layers[0].binary_macs, summary.bytes
    ({1: 128}, 128, 16)
    """
    model, reason = network_of(classifier), None
    calls: dict[tuple, list] = {}
    try:
        for node in trace(model)[1:]:
            calls.setdefault((node.name, node.layer), []).append(node)
        lowered(model)
    except PackError as error:
        if not model.built:
            raise
        reason = str(error)
    # Without a graph, sizes are not known.
    entries = calls or {(layer.name, layer): [] for layer in model.layers}
    rows = [_summary(name, layer, found) for (name, layer), found in entries.items()]
    return ModelSummary(rows, reason)


def _summary(name, layer, calls):
    weights = Counter()
    for width, shape in _widths(layer):
        weights[width] += math.prod(shape)
    shape = calls[-1].shape if calls else ()
    return LayerSummary(name, shape, dict(weights), *_macs(layer, calls))


def _widths(layer):
    """The bits and the shape of each weight; operations of `keras.ops` have none."""
    known = {}
    if isinstance(layer, BinaryLayer):
        known = {id(layer.kernel): layer.kernel_quantizer}
    for weight in getattr(layer, "weights", ()):
        estimator = known.get(id(weight))
        scale = estimator and estimator.scale(weight)
        if scale is not None:
            yield 32, scale.shape
        if weight.name not in _STATE:
            width = 8 if "int8" in str(weight.dtype) else 32
            yield (estimator.bits if estimator else width), weight.shape


def _macs(layer, calls) -> tuple[int | None, int | None]:
    """Multiply-accumulates of signs with signs, and the others."""
    kernels: list[Any] = [getattr(layer, name) for name in _KERNELS if hasattr(layer, name)]
    hidden = not kernels and any(
        "kernel" in weight.name for weight in getattr(layer, "weights", ())
    )
    if hidden or (kernels and not calls):
        return None, None
    binary = everything = 0
    for call in calls if kernels else ():
        products = [_places(call) * math.prod(kernel.shape) for kernel in kernels]
        everything += sum(products)
        signs = isinstance(layer, BinaryLayer) and layer.input_sign is not None
        if signs and layer.input_sign.estimator.bits == layer.kernel_quantizer.bits == 1:
            binary += sum(products)
    return binary, everything - binary


def _places(call):
    """How often the whole kernel is applied: at every place of the outputs, or of the inputs."""
    transposed = "Transpose" in type(call.layer).__name__
    shape = call.inputs[0].shape if transposed else call.shape
    first = getattr(call.layer, "data_format", None) == "channels_first"
    return math.prod(shape[1:] if first else shape[:-1])
