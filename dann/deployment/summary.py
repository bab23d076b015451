"""The bits and the operations of a model, layer by layer."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import layers

from dann.deployment.graph import PackError, trace
from dann.deployment.packing import lowered, network_of
from dann.layers import BinarySign
from dann.layers.binary_layer import BinaryLayer

_TRANSPOSED = (layers.Conv1DTranspose, layers.Conv2DTranspose, layers.Conv3DTranspose)
_OF_ONE_KERNEL = (
    layers.Dense,
    layers.Conv1D,
    layers.Conv2D,
    layers.Conv3D,
    layers.DepthwiseConv1D,
    layers.DepthwiseConv2D,
    *_TRANSPOSED,
)
_SEPARABLE = (layers.SeparableConv1D, layers.SeparableConv2D)


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
    def bits(self) -> int:
        """Bits of its weights."""
        return sum(width * count for width, count in self.weights.items())


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
        return sum(-(-layer.bits // 8) for layer in self.layers)

    @property
    def float_bytes(self) -> int:
        """Bytes of all weights in float32."""
        return 4 * sum(sum(layer.weights.values()) for layer in self.layers)

    @property
    def binary_macs(self) -> int:
        """Multiply-accumulates of signs with signs for one input, as far as they are known."""
        return sum(layer.binary_macs or 0 for layer in self.layers)

    @property
    def float_macs(self) -> int:
        """The other multiply-accumulates of kernels for one input, as far as they are known."""
        return sum(layer.float_macs or 0 for layer in self.layers)

    def __str__(self) -> str:
        head = ("layer", "shape", "weights", "bytes", "binary MACs", "float MACs")
        totals = (f"{number:,}" for number in (self.bytes, self.binary_macs, self.float_macs))
        rows = [head, *map(_cells, self.layers), ("total", "", "", *totals)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        ratio = self.float_bytes / max(self.bytes, 1)
        lines.append(f"float32 weights: {self.float_bytes:,} bytes, {ratio:.1f} times as many")
        return "\n".join(lines + ([f"It cannot be packed: {self.reason}"] if self.reason else []))


def _cells(layer):
    weights = ", ".join(f"{n:,} x {width} bit" for width, n in sorted(layer.weights.items()))
    shape = " x ".join(map(str, layer.shape))
    macs = ("?" if n is None else f"{n:,}" for n in (layer.binary_macs, layer.float_macs))
    return layer.name, shape, weights, f"{-(-layer.bits // 8):,}", *macs


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
    try:
        lowered(model)
    except PackError as error:
        if not model.built:
            raise
        reason = str(error)
    return ModelSummary([_summary(*entry) for entry in _calls(model).items()], reason)


def _calls(model):
    """The calls of each layer by its name and itself; none if the graph is not known."""
    found = {}
    try:
        for node in trace(model)[1:]:
            found.setdefault((node.name, node.layer), []).append(node)
    except PackError:
        return dict.fromkeys(_inner_layers(model, ""), ())
    return found


def _inner_layers(model, prefix):
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            yield from _inner_layers(layer, f"{prefix}{layer.name}/")
        elif not isinstance(layer, layers.InputLayer):
            yield prefix + layer.name, layer


def _summary(key, calls):
    name, layer = key
    weights: dict[int, int] = {}
    for width, count in _widths(layer):
        weights[width] = weights.get(width, 0) + count
    shape = calls[-1].shape if calls else ()
    return LayerSummary(name, shape, weights, *_macs(layer, calls))


def _widths(layer):
    """Bits and number of the numbers in each weight; the state of a quantizer does not count."""
    kernels, state = {}, set()
    if isinstance(layer, BinaryLayer):
        kernels = dict(zip(map(id, layer.latent_kernels), layer.kernel_estimators, strict=True))
    for part in layer._flatten_layers() if isinstance(layer, keras.layers.Layer) else ():
        if isinstance(part, BinarySign):
            state |= {id(part.step), id(part.sharpness)}
    for weight in _weights(layer):
        if id(weight) in kernels:
            scale = kernels[id(weight)].scale(weight)
            yield kernels[id(weight)].bits, math.prod(weight.shape)
            if scale is not None:
                yield 32, math.prod(scale.shape)
        elif id(weight) not in state:
            yield 8 if "int8" in str(weight.dtype) else 32, math.prod(weight.shape)


def _weights(layer):
    return getattr(layer, "weights", ())  # operations of `keras.ops` have none


def _macs(layer, calls):
    """Multiply-accumulates of signs with signs, and the others."""
    kernels = _kernels(layer)
    if kernels is None or (kernels and not calls):
        return None, None
    binary = everything = 0
    for call in calls:
        products = [_places(call) * math.prod(kernel.shape) for kernel in kernels]
        everything += sum(products)
        # The second kernel of a separable convolution takes sums.
        binary += products[0] if products and _is_of_signs(call) else 0
    return binary, everything - binary


def _kernels(layer) -> list[Any] | None:
    """The kernels of a layer, or `None` if we do not know how it computes with its weights."""
    if isinstance(layer, BinaryLayer):
        return layer.latent_kernels
    if isinstance(layer, _SEPARABLE):
        return [layer.depthwise_kernel, layer.pointwise_kernel]
    if isinstance(layer, _OF_ONE_KERNEL):
        return [layer.kernel]
    flat = all(len(weight.shape) < 2 or "kernel" not in weight.name for weight in _weights(layer))
    return [] if flat else None


def _places(call):
    """How often the whole kernel is applied: at every place of the outputs, or of the inputs."""
    shape = call.inputs[0].shape if isinstance(call.layer, _TRANSPOSED) else call.shape
    first = getattr(call.layer, "data_format", None) == "channels_first"
    return math.prod(shape[1:] if first else shape[:-1])


def _is_of_signs(call):
    """Whether a layer multiplies signs by signs."""
    layer, before = call.layer, call.inputs[0]
    if not isinstance(layer, BinaryLayer) or layer.kernel_estimators[0].bits > 1:
        return False
    if layer.input_sign is not None:
        return layer.input_sign.estimator.bits == 1
    while isinstance(before.layer, layers.Flatten | layers.Dropout | layers.MaxPooling2D):
        before = before.inputs[0]
    return isinstance(before.layer, BinarySign) and before.layer.estimator.bits == 1
