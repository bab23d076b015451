"""The bits and the operations of a model, layer by layer."""

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence

import keras
import numpy as np

from dann.deployment.packing import network_of, program_of
from dann.deployment.tracing import PackError
from dann.layers.binary_layer import BinaryLayer

_STATE = ("step", "sharpness")  # of a quantizer in training


@dataclasses.dataclass(frozen=True)
class LayerSummary:
    """The weights and the operations of one layer.

    Args:
        name: Name of the layer, after those of the models that it is nested in.
        shape: Shape of its output, without the batch; `()` if not known, as in subclassed models.
        weights: How many weights there are of each width in bits: 1 for a binary kernel, 32 for a
            float.
        binary_macs: Multiply-accumulates of signs with signs, for one input, over all its calls;
            `None` if the model cannot be packed.
        float_macs: The other multiply-accumulates of its kernels, or `None`.
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
        head = ("layer", "shape", "weights", "bytes", "binary MACs", "float MACs")
        rows: list[tuple[str, ...]] = [head]
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
    network, steps, reason = network_of(classifier), (), None
    try:
        steps = program_of(network)
    except PackError as error:
        if not network.built:
            raise
        reason = str(error)
    layers = list(_layers(network, ""))
    return ModelSummary([_summary(name, layer, steps) for name, layer in layers], reason)


def _layers(model, prefix):
    for layer in model.layers:
        name = f"{prefix}{layer.name}"
        if isinstance(layer, keras.Model):
            yield from _layers(layer, f"{name}/")
        elif not isinstance(layer, keras.layers.InputLayer):
            yield name, layer


def _summary(name, layer, steps):
    weights: Counter[int] = Counter()
    for weight in layer.weights:
        is_kernel = isinstance(layer, BinaryLayer) and weight is layer.kernel
        width = layer.kernel_quantizer.bits if is_kernel else 8 * np.asarray(weight).itemsize
        scale = layer.kernel_scale() if is_kernel else None
        if weight.name not in _STATE:
            weights[width] += math.prod(weight.shape)
        if scale is not None:
            weights[32] += math.prod(scale.shape)
    macs = {"binary": 0, "float": 0}
    for step in steps:
        if step.layer == name and "fan_in" in step.attributes:
            kind = "binary" if step.op.startswith("binary") else "float"
            macs[kind] += math.prod(step.shape) * step.attributes["fan_in"]
    binary_macs, float_macs = macs.values() if steps else (None, None)
    output = getattr(layer, "output", None)  # unless it was never called on a symbolic tensor
    shape = () if output is None else tuple(output.shape[1:])
    return LayerSummary(name, shape, dict(weights), binary_macs, float_macs)
