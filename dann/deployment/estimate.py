"""An estimate of the size and the operations of a model that cannot be packed."""

import math
from typing import Any

import keras
from keras import layers

from dann.deployment.graph import PackError, in_order, trace
from dann.gradients import binary_sign
from dann.layers import BinarySign, RPReLU
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
# These have no kernel, although a weight may have the shape of one.
_ELEMENTWISE = (layers.PReLU, layers.LayerNormalization, layers.Embedding, BinarySign, RPReLU)
# These give signs if they get signs.
_OF_SIGNS = (
    layers.Dropout,
    layers.Flatten,
    layers.MaxPooling1D,
    layers.MaxPooling2D,
    layers.MaxPooling3D,
    layers.Reshape,
)


def estimated(model: keras.Model) -> list[tuple]:
    """Returns the size and the operations of each layer of a built model, for `LayerSummary`.

    A float weight counts 32 bits, a weight of one of Keras's 8-bit types 8, and a weight of a
    binary layer the bits of its estimator's codes. Multiply-accumulates are known for dense and
    convolution layers if the model's graph and sizes are; for other layers with a kernel they are
    `None`.
    """
    precisions = _precisions(model)
    entries = _layers(model)
    rows = [_row(*entry, precisions) for entry in entries]
    counted = {id(weight) for _, layer, _ in entries for weight in _weights(layer)}
    rest = [weight for weight in model.weights if id(weight) not in counted]
    if rest:  # made by the model itself
        bits, precision = _weighed(rest, precisions)
        rows.append((model.name, (), precision, bits, -(-bits // 8), None, None))
    return rows


def _layers(model):
    """The layers with their names and calls; no calls if the graph is not known."""
    try:
        nodes = [node for node in in_order(trace(model)) if node.layer is not None]
    except PackError:
        return [(name, layer, ()) for name, layer in _inner_layers(model, "")]
    calls = {}
    for node in nodes:
        calls.setdefault(node.name, []).append(node)
    return [(name, own[0].layer, own) for name, own in calls.items()]


def _inner_layers(model, prefix):
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            yield from _inner_layers(layer, f"{prefix}{layer.name}/")
        elif not isinstance(layer, layers.InputLayer):
            yield prefix + layer.name, layer


def _weights(layer):
    return getattr(layer, "weights", ())  # operations of `keras.ops` have none


def _precisions(model):
    """The bits of each weight and of its scale, unless they are those of its type."""
    found = {}
    for layer in model._flatten_layers():
        if isinstance(layer, BinarySign) and layer.step is not None:
            found[id(layer.step)] = found[id(layer.sharpness)] = (0, 0)  # only training needs them
        if isinstance(layer, BinaryLayer):
            for estimator, latent in zip(
                layer.kernel_estimators, layer.latent_kernels, strict=True
            ):
                scale = estimator.scale(latent)
                beside = 0 if scale is None else 32 * math.prod(scale.shape)
                found[id(latent)] = (estimator.bits, beside)
    return found


def _weighed(weights, precisions):
    """The bits of weights and their precision: that of the weight with the fewest bits."""
    total, widths = 0, set()
    for weight in weights:
        width, beside = precisions.get(id(weight), (_width(str(weight.dtype)), 0))
        total += width * math.prod(weight.shape) + beside
        widths.add((width, id(weight) in precisions))
    width, coded = min(((w, coded) for w, coded in widths if w), default=(0, False))
    if coded:
        return total, "1 bit" if width == 1 else f"{width} bits"
    return total, {0: "", 8: "int8", 32: "float32"}[width]


def _width(dtype):
    return 32 if "float" in dtype else 8 if dtype in ("int8", "uint8") else 0


def _row(name, layer, calls, precisions):
    bits, precision = _weighed(_weights(layer), precisions)
    shape = calls[-1].shape if calls else ()
    macs = _macs(layer, calls)
    return name, shape, precision, bits, -(-bits // 8), *macs


def _macs(layer, calls):
    """Multiply-accumulates of signs with signs, and the others."""
    kernels = _kernels(layer)
    if not kernels:
        return (0, 0) if kernels is not None else (None, None)
    if not calls:
        return None, None
    binary = everything = 0
    for call in calls:
        products = [_places(call) * math.prod(kernel.shape) for kernel in kernels]
        everything += sum(products)
        # The second kernel of a separable convolution takes sums.
        binary += products[0] if _is_of_signs(call) else 0
    return binary, everything - binary


def _kernels(layer) -> list[Any] | None:
    """The kernels of a layer, or `None` if we do not know how it computes with its weights."""
    if isinstance(layer, BinaryLayer):
        return layer.latent_kernels
    if isinstance(layer, _SEPARABLE):
        return [layer.depthwise_kernel, layer.pointwise_kernel]
    if isinstance(layer, _OF_ONE_KERNEL):
        return [layer.kernel]
    flat = all(len(weight.shape) < 2 for weight in _weights(layer))
    return [] if flat or isinstance(layer, _ELEMENTWISE) else None


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
    while isinstance(before.layer, _OF_SIGNS):
        before = before.inputs[0]
    return _gives_signs(before.layer)


def _gives_signs(layer):
    """Whether a layer, or the activation in it, gives signs."""
    last = getattr(layer, "activation", None) or layer
    last = getattr(last, "func", last)  # of a `functools.partial`
    return last is binary_sign or (isinstance(last, BinarySign) and last.estimator.bits == 1)
