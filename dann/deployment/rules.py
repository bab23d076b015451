"""Layers without a binary kernel as steps of a program."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
from keras import layers, ops

from dann.deployment.graph import Node
from dann.deployment.lowering import (
    Rule,
    activated,
    array,
    of_channels,
    require,
    require_channels_last,
)
from dann.layers import BatchNormalization, BinarySign, RPReLU, RSign


def _dense(steps, node, inputs):
    layer, kernel = node.layer, array(node.layer.kernel)
    bias = array(layer.bias) if layer.use_bias else None
    attributes = {"fan_in": len(kernel)}
    number = steps.add("dense", node, inputs, attributes=attributes, kernel=kernel, bias=bias)
    return activated(steps, node, number, layer.activation)


def _batch_norm(steps, node, inputs):
    layer = node.layer
    axis = layer.axis if isinstance(layer.axis, int) else layer.axis[0]
    require(axis in (-1, len(node.shape)), node, "normalize the last axis", f"axis={axis}")
    # The layer's own operations in its order, because ties must round the same way.
    scale = ops.rsqrt(layer.moving_variance + layer.epsilon)
    if layer.scale:
        scale = scale * layer.gamma
    shift = layer.moving_mean * scale
    offset = layer.beta - shift if layer.center else -shift
    return steps.add("affine", node, inputs, scale=array(scale), offset=array(offset))


def _rescaling(steps, node, inputs):
    scale, offset = (of_channels(node, one) for one in (node.layer.scale, node.layer.offset))
    return steps.add("affine", node, inputs, scale=scale, offset=offset)


def _activation(steps, node, inputs):
    return activated(steps, node, inputs[0], node.layer.activation)


def _function(name, steps, node, inputs):
    function = "hard_tanh" if name == "HardTanh" else name.lower()
    return activated(steps, node, inputs[0], getattr(keras.activations, function))


def _softmax(steps, node, inputs):
    axis = node.layer.axis
    require(axis in (-1, len(node.shape)), node, "have axis=-1", axis)
    return activated(steps, node, inputs[0], keras.activations.softmax)


def _relu(steps, node, inputs):
    layer = node.layer
    plain = layer.max_value in (None, 6) and not layer.threshold
    settings = f"max_value={layer.max_value}, threshold={layer.threshold}"
    require(plain, node, "have no `threshold`, and no `max_value` but 6", settings)
    if layer.negative_slope:
        require(layer.max_value is None, node, "have one of `max_value` and a slope", settings)
        return _leaky_relu(steps, node, inputs)
    return activated(steps, node, inputs[0], getattr(keras.activations, _RELUS[layer.max_value]))


def _leaky_relu(steps, node, inputs):
    return steps.add("prelu", node, inputs, slopes=of_channels(node, node.layer.negative_slope))


def _prelu(steps, node, inputs):
    return steps.add("prelu", node, inputs, slopes=of_channels(node, node.layer.alpha))


def _rprelu(steps, node, inputs):
    layer = node.layer
    number = steps.add("affine", node, inputs, offset=-of_channels(node, layer.input_shift))
    number = steps.add("prelu", node, [number], slopes=of_channels(node, layer.slope))
    return steps.add("affine", node, [number], offset=of_channels(node, layer.output_shift))


def sign(steps, node, number, layer) -> int:
    """Adds the signs of a step, as bits, if the estimator of a `BinarySign` gives signs."""
    probe = np.array([-3.0, -1.0, -0.3, -1e-9, -0.0, 0.0, 1e-9, 0.3, 1.0, 3.0], "float32")
    given = np.asarray(ops.convert_to_numpy(layer.estimator(ops.convert_to_tensor(probe))))
    signs = np.array_equal(given, np.where(probe >= 0, 1, -1)) and not layer.estimator.pooled
    require(signs, node, "quantize its inputs to their signs", layer.estimator)
    return steps.add("sign", node, [number], "bits", shape=steps[number].shape)


def _sign(steps, node, inputs):
    bits = sign(steps, node, inputs[0], node.layer)
    return steps.add("signs", node, [bits])


def _rsign(steps, node, inputs):
    threshold = of_channels(node, node.layer.threshold)
    return _sign(steps, node, [steps.add("affine", node, inputs, offset=-threshold)])


def _reshape(steps, node, inputs):
    require_channels_last(node)
    before = steps[inputs[0]]
    attributes = {"input_shape": list(before.shape)}
    return steps.add("reshape", node, inputs, before.kind, attributes)


def _number(node):
    """What is added to, or multiplied with, the one input of a call; `None` if there are more."""
    others = [one for one in node.arguments if not isinstance(one, Node)]
    return of_channels(node, others[0]) if others and len(node.inputs) == 1 else None


def _add(steps, node, inputs):
    number = _number(node)
    if number is not None:
        return steps.add("affine", node, inputs, offset=number)
    shapes = [one.shape for one in node.inputs]
    require(set(shapes) == {node.shape}, node, "add outputs of one shape", shapes)
    return steps.add("add", node, inputs)


def _multiply(steps, node, inputs):
    number = _number(node)
    require(
        number is not None, node, "multiply with a number, or with one for each channel", "layers"
    )
    return steps.add("affine", node, inputs, scale=number)


def _concatenate(steps, node, inputs):
    axis = node.layer.axis
    require(axis in (-1, len(node.shape)), node, "join channels, with axis=-1,", axis)
    return steps.add("concatenate", node, inputs)


def _nothing(steps, node, inputs):
    """Adds no step: the layer acts in training only."""
    return inputs[0]


def geometry(node: Any, kernel_shape: Sequence[int], groups: int, pad_value: float) -> dict:
    """Returns the attributes of a convolution.

    Args:
        node: Call of a Keras convolution.
        kernel_shape: Shape of its kernel: window, inputs of a group, outputs.
        groups: Number of groups.
        pad_value: Value of the padding.
    """
    layer, size = node.layer, [int(length) for length in kernel_shape[:-2]]
    windows = _windows(node, size, layer.strides, layer.dilation_rate, layer.padding)
    fan_in = int(np.prod(kernel_shape[:-1]))
    return {**windows, "groups": groups, "pad_value": pad_value, "fan_in": fan_in}


def _windows(node, size, strides, dilation, padding):
    """The attributes of windows.

    Padding "same" gives `ceil(length / stride)` places along an axis. What it adds is split into
    halves; an odd one goes to the end.
    """
    require_channels_last(node)
    shape, pads = node.inputs[0].shape, []
    for length, taps, stride, rate in zip(shape[:-1], size, strides, dilation, strict=True):
        reach = (taps - 1) * rate
        total = {
            "valid": 0,
            "causal": reach,
            "same": max((-(-length // stride) - 1) * stride + reach + 1 - length, 0),
        }[padding]
        before = total if padding == "causal" else total // 2
        pads.append([int(before), int(total - before)])
    return {
        "input_shape": list(shape),
        "size": size,
        "strides": [int(stride) for stride in strides],
        "dilation": [int(rate) for rate in dilation],
        "pads": pads,
    }


def _conv(steps, node, inputs):
    layer, kernel = node.layer, array(node.layer.kernel)
    groups = getattr(layer, "groups", 1)
    if isinstance(layer, layers.DepthwiseConv1D | layers.DepthwiseConv2D):
        groups = kernel.shape[-2]
        kernel = kernel.reshape(*kernel.shape[:-2], 1, -1)
    bias = array(layer.bias) if layer.use_bias else None
    attributes = geometry(node, kernel.shape, groups, 0.0)
    number = steps.add("conv", node, inputs, attributes=attributes, kernel=kernel, bias=bias)
    return activated(steps, node, number, layer.activation)


def _pool(op, steps, node, inputs):
    layer = node.layer
    size, flat = [int(length) for length in layer.pool_size], [1] * len(layer.pool_size)
    attributes = _windows(node, size, layer.strides, flat, layer.padding)
    kind = steps[inputs[0]].kind if op == "max_pool" else "float"
    return steps.add(op, node, inputs, kind, attributes)


def _global_pool(op, steps, node, inputs):
    before = steps[inputs[0]]
    size = list(before.shape[:-1])
    flat = [1] * len(size)
    attributes = _windows(node, size, size, flat, "valid")
    kind = before.kind if op == "max_pool" else "float"
    shape = [*flat, node.shape[-1]]
    number = steps.add(op, node, inputs, kind, attributes, shape)
    return _reshape(steps, node, [number])


_RELUS = {None: "relu", 6: "relu6"}
_RANKS = ("1D", "2D", "3D")
_POOLINGS = {"Max": "max_pool", "Average": "average_pool"}
_IN_TRAINING = ("ActivityRegularization", "Dropout", "GaussianDropout", "GaussianNoise", "Identity")
_FUNCTIONS = ("HardTanh", "Relu", "Relu6", "Sigmoid", "Tanh")  # of `keras.ops`

RULES: Mapping[Any, Rule] = {
    layers.Activation: _activation,
    layers.Add: _add,
    "Add": _add,  # from `x + y` and `keras.ops.add`
    layers.BatchNormalization: _batch_norm,
    BatchNormalization: _batch_norm,
    layers.Concatenate: _concatenate,
    "Concatenate": _concatenate,
    layers.Dense: _dense,
    layers.Flatten: _reshape,
    layers.LeakyReLU: _leaky_relu,
    "LeakyRelu": _leaky_relu,
    "Multiply": _multiply,
    layers.PReLU: _prelu,
    layers.ReLU: _relu,
    "ReLU": _relu,  # from `keras.activations.relu`
    layers.Rescaling: _rescaling,
    layers.Reshape: _reshape,
    "Reshape": _reshape,
    layers.Softmax: _softmax,
    "Softmax": _softmax,
    BinarySign: _sign,
    RPReLU: _rprelu,
    RSign: _rsign,
    layers.DepthwiseConv1D: _conv,
    layers.DepthwiseConv2D: _conv,
    **{getattr(layers, f"Conv{rank}"): _conv for rank in _RANKS},
    **{
        getattr(layers, f"{before}{kind}Pooling{rank}"): partial(rule, op)
        for kind, op in _POOLINGS.items()
        for before, rule in (("", _pool), ("Global", _global_pool))
        for rank in _RANKS
    },
    **{getattr(layers, name): _nothing for name in _IN_TRAINING},
    **{getattr(layers, f"SpatialDropout{rank}"): _nothing for rank in _RANKS},
    **{name: partial(_function, name) for name in _FUNCTIONS},
}
