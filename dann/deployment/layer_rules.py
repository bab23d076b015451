"""Layers without windows and without a binary kernel as steps of a program."""

import keras
import numpy as np
from keras import layers, ops

from dann.deployment.elementwise import FUNCTIONS
from dann.deployment.graph import PackError
from dann.layers import BatchNormalization, BinarySign, RPReLU, RSign


def array(values) -> np.ndarray:
    """Returns a tensor as `float32`, in the byte order of packed files."""
    return np.asarray(ops.convert_to_numpy(values), "<f4")


def activated(steps, node, number, activation) -> int:
    """Adds an activation function."""
    if activation is None or activation is keras.activations.linear:
        return number
    name = getattr(activation, "__name__", str(activation))
    if name not in FUNCTIONS or activation is not getattr(keras.activations, name):
        raise PackError(
            f"Layer {node.name!r} has an activation that cannot be packed. Expected linear, "
            f"{', '.join(FUNCTIONS)}. Received: {name}"
        )
    return steps.emit("activation", node.name, [number], node.shape, attributes={"function": name})


def _dense(steps, node, inputs):
    layer = node.layer
    kernel = array(layer.kernel)
    bias = array(layer.bias) if layer.use_bias else None
    fan_in = kernel.shape[0]
    attributes = {"fan_in": fan_in, "macs": int(np.prod(node.shape)) * fan_in}
    number = steps.emit(
        "dense", node.name, inputs, node.shape, attributes=attributes, kernel=kernel, bias=bias
    )
    return activated(steps, node, number, layer.activation)


def _batch_norm(steps, node, inputs):
    layer = node.layer
    axis = layer.axis if isinstance(layer.axis, int) else layer.axis[0]
    if axis not in (-1, len(node.shape)):
        raise PackError(
            f"Layer {node.name!r} must normalize the last axis to be packed. Received: axis={axis}"
        )
    # The layer's own operations in its order, because ties must round the same way.
    scale = ops.rsqrt(layer.moving_variance + layer.epsilon)
    if layer.scale:
        scale = scale * layer.gamma
    shift = layer.moving_mean * scale
    offset = layer.beta - shift if layer.center else -shift
    return _affine(steps, node, inputs, array(scale), array(offset))


def _affine(steps, node, inputs, scale=None, offset=None):
    return steps.emit("affine", node.name, inputs, node.shape, scale=scale, offset=offset)


def _rescaling(steps, node, inputs):
    layer = node.layer
    scale, offset = (np.atleast_1d(np.asarray(v, "<f4")) for v in (layer.scale, layer.offset))
    if scale.ndim > 1 or offset.ndim > 1:
        raise PackError(
            f"Layer {node.name!r} must scale all values or channels to be packed. Received: "
            f"scale of shape {scale.shape}, offset of shape {offset.shape}"
        )
    return _affine(steps, node, inputs, scale, offset)


def _activation(steps, node, inputs):
    return activated(steps, node, inputs[0], node.layer.activation)


def _softmax(steps, node, inputs):
    if node.layer.axis not in (-1, len(node.shape)):
        raise PackError(f"Layer {node.name!r} must have axis=-1. Received: {node.layer.axis}")
    return activated(steps, node, inputs[0], keras.activations.softmax)


def _relu(steps, node, inputs):
    layer = node.layer
    if layer.max_value is not None or layer.threshold:
        raise PackError(
            f"Layer {node.name!r} must have no `max_value` or `threshold` to be packed. Received: "
            f"max_value={layer.max_value}, threshold={layer.threshold}"
        )
    if not layer.negative_slope:
        return activated(steps, node, inputs[0], keras.activations.relu)
    return _leaky_relu(steps, node, inputs)


def _leaky_relu(steps, node, inputs):
    slopes = np.full(1, node.layer.negative_slope, "<f4")
    return steps.emit("prelu", node.name, inputs, node.shape, slopes=slopes)


def _rprelu(steps, node, inputs):
    layer = node.layer
    number = _affine(steps, node, inputs, offset=-_of_channels(node, layer.input_shift))
    slopes = _of_channels(node, layer.slope)
    number = steps.emit("prelu", node.name, [number], node.shape, slopes=slopes)
    return _affine(steps, node, [number], offset=_of_channels(node, layer.output_shift))


def _of_channels(node, weight):
    """A weight of one number for each channel, if the channels are the last axis."""
    values = array(weight)
    if values.size != values.shape[-1]:
        raise PackError(
            f"Layer {node.name!r} must have axis=-1 to be packed. Received: axis={node.layer.axis}"
        )
    return values.reshape(-1)


def sign_step(steps, node, number, sign) -> int:
    """Adds the signs of a step, as bits, if the estimator of a `BinarySign` gives signs."""
    probe = np.array([-3.0, -1.0, -0.3, -1e-9, -0.0, 0.0, 1e-9, 0.3, 1.0, 3.0], "float32")
    given = np.asarray(ops.convert_to_numpy(sign.estimator(ops.convert_to_tensor(probe))))
    if sign.estimator.pooled or not np.array_equal(given, np.where(probe >= 0, 1, -1)):
        raise PackError(
            f"Layer {node.name!r} must quantize its inputs to their signs to be packed. "
            f"Received: {sign.estimator!r}"
        )
    shape = steps[number].shape
    return steps.emit("sign", node.name, [number], shape, "bits")


def _sign(steps, node, inputs):
    bits = sign_step(steps, node, inputs[0], node.layer)
    return steps.emit("signs", node.name, [bits], node.shape)


def _rsign(steps, node, inputs):
    threshold = _of_channels(node, node.layer.threshold)
    return _sign(steps, node, [_affine(steps, node, inputs, offset=-threshold)])


def check_channels_last(node) -> None:
    """Raises `PackError` if the layer's channels come first."""
    if getattr(node.layer, "data_format", "channels_last") != "channels_last":
        raise PackError(
            f"Layer {node.name!r} must have data_format='channels_last' to be packed. "
            f"Received: {node.layer.data_format!r}"
        )


def reshape(steps, node, inputs) -> int:
    """Adds the same values in another shape."""
    check_channels_last(node)
    before = steps[inputs[0]]
    attributes = {"input_shape": list(before.shape)}
    return steps.emit("reshape", node.name, inputs, node.shape, before.kind, attributes)


def _add(steps, node, inputs):
    shapes = [one.shape for one in node.inputs]
    if len(shapes) < 2:  # the graph does not show the 1 of `x + 1`
        raise PackError(
            f"{node.name!r} must add outputs of layers to be packed; `keras.layers.Rescaling` adds "
            "a number. Received: one output"
        )
    if any(shape != node.shape for shape in shapes):
        raise PackError(
            f"Layer {node.name!r} must add outputs of one shape to be packed. Received: {shapes}"
        )
    return steps.emit("add", node.name, inputs, node.shape)


def _nothing(steps, node, inputs):
    """Adds no step: the layer acts in training only."""
    return inputs[0]


LAYERS = {
    layers.Activation: _activation,
    layers.Add: _add,
    **dict.fromkeys((BatchNormalization, layers.BatchNormalization), _batch_norm),
    layers.Dense: _dense,
    layers.Flatten: reshape,
    layers.LeakyReLU: _leaky_relu,
    layers.ReLU: _relu,
    layers.Rescaling: _rescaling,
    layers.Reshape: reshape,
    layers.Softmax: _softmax,
    BinarySign: _sign,
    RPReLU: _rprelu,
    RSign: _rsign,
    **dict.fromkeys(
        (
            layers.ActivityRegularization,
            layers.Dropout,
            layers.GaussianDropout,
            layers.GaussianNoise,
            layers.Identity,
            layers.SpatialDropout1D,
            layers.SpatialDropout2D,
            layers.SpatialDropout3D,
        ),
        _nothing,
    ),
}
OPERATIONS = {"Add": _add}  # from `x + y` and `keras.ops.add`
