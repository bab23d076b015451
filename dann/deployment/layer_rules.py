"""The table of what can be packed: how a call of each layer becomes steps of a program."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.deployment.tracing import Call
from dann.layers.binary_layer import BinaryLayer


def _array(values):
    """A tensor as `float32`, in the byte order of packed files."""
    return np.asarray(ops.convert_to_numpy(values), "<f4")


def _channels(call, values):
    """A tensor of one number, or of one for each channel of the last axis, as an array."""
    values = np.atleast_1d(_array(values))
    call.require(values.size == values.shape[-1], "act on the last axis", values.shape)
    return values.reshape(-1)


def _last_axis(call, what):
    axis = call.layer.axis
    axis = axis[0] if isinstance(axis, list | tuple) else axis
    call.require(axis in (-1, len(call.shape)), what, f"axis={axis}")


def _channels_last(call):
    order = getattr(call.layer, "data_format", None)
    call.require(order in (None, "channels_last"), "have data_format='channels_last'", order)


def _nothing(call):
    """Adds no step: the layer acts in training only."""
    return call.inputs[0]


def _activated(call, number, function):
    """Adds an activation: what a function of a tensor computes."""
    if function is None:
        return number
    shape = call.trace.program.steps[number].shape
    tensors = [keras.KerasTensor((None, *shape))]
    return call.trace.follow(function, tensors, [number], call.name, nested=False)[0]


def _activation(call):
    return _activated(call, call.inputs[0], call.layer.activation)


def _function(call):
    function = _FUNCTIONS[type(call.layer).__name__]
    return call.add("activation", *call.inputs, attributes={"function": function})


def _softmax(call):
    _last_axis(call, "have axis=-1")
    return call.add("activation", *call.inputs, attributes={"function": "softmax"})


def _relu(call):
    layer = call.layer
    call.require(not layer.threshold, "have no `threshold`", layer.threshold)
    if not layer.negative_slope and layer.max_value in (None, 6):
        function = "relu6" if layer.max_value else "relu"
        return call.add("activation", *call.inputs, attributes={"function": function})
    call.require(layer.max_value is None, "have no `max_value` but 6", layer.max_value)
    return _leaky_relu(call)


def _leaky_relu(call):
    return call.add("prelu", *call.inputs, slopes=_channels(call, call.layer.negative_slope))


def _prelu(call):
    return call.add("prelu", *call.inputs, slopes=_channels(call, call.layer.alpha))


def _rprelu(call):
    layer = call.layer
    number = call.add("affine", *call.inputs, offset=-_channels(call, layer.input_shift))
    number = call.add("prelu", number, slopes=_channels(call, layer.slope))
    return call.add("affine", number, offset=_channels(call, layer.output_shift))


def _bits(call, number, layer):
    """Adds the signs of a step, if the estimator of a `BinarySign` gives signs."""
    probe = np.array([-3.0, -1.0, -0.3, -1e-9, -0.0, 0.0, 1e-9, 0.3, 1.0, 3.0], "float32")
    given = _array(layer.estimator(ops.convert_to_tensor(probe)))
    signs = np.array_equal(given, np.where(probe >= 0, 1, -1)) and not layer.estimator.pooled
    call.require(signs, "quantize its inputs to their signs", layer.estimator)
    return call.trace.program.signs_of(number, call.name)


def _sign(call):
    return call.add("signs", _bits(call, call.inputs[0], call.layer))


def _rsign(call):
    number = call.add("affine", *call.inputs, offset=-_channels(call, call.layer.threshold))
    return call.add("signs", _bits(call, number, call.layer))


def _batch_normalization(call):
    layer = call.layer
    _last_axis(call, "normalize the last axis")
    # The layer's own operations in its order, because ties must round the same way.
    scale = ops.rsqrt(layer.moving_variance + layer.epsilon)
    scale = scale * layer.gamma if layer.scale else scale
    shift = layer.moving_mean * scale
    offset = layer.beta - shift if layer.center else -shift
    return call.add("affine", *call.inputs, scale=_array(scale), offset=_array(offset))


def _rescaling(call):
    scale, offset = (_channels(call, one) for one in (call.layer.scale, call.layer.offset))
    return call.add("affine", *call.inputs, scale=scale, offset=offset)


def _number(call):
    """What is added to, or multiplied with, the one input of a call; `None` if there are more."""
    others = [one for one in call.arguments if not isinstance(one, keras.KerasTensor)]
    return _channels(call, others[0]) if others and len(call.inputs) == 1 else None


def _add(call):
    number = _number(call)
    if number is not None:
        return call.add("affine", *call.inputs, offset=number)
    shapes = {tuple(call.trace.program.steps[one].shape) for one in call.inputs}
    call.require(shapes == {call.shape}, "add outputs of one shape", shapes)
    return call.add("add", *call.inputs)


def _multiply(call):
    number = _number(call)
    call.require(number is not None, "multiply with a number, or one for each channel,", "layers")
    return call.add("affine", *call.inputs, scale=number)


def _concatenate(call):
    _last_axis(call, "join channels, with axis=-1,")
    return call.add("concatenate", *call.inputs)


def _reshape(call, number=None):
    _channels_last(call)
    number = call.inputs[0] if number is None else number
    before = call.trace.program.steps[number]
    attributes = {"input_shape": list(before.shape)}
    return call.add("reshape", number, kind=before.kind, attributes=attributes)


def _pool(call):
    layer, before = call.layer, call.input_step()
    size = getattr(layer, "pool_size", before.shape[:-1])
    strides = getattr(layer, "strides", size)
    flat, padding = [1] * len(size), getattr(layer, "padding", "valid")
    attributes = _windows(call, before.shape, size, strides, flat, padding)
    op, kind = (
        ("max_pool", before.kind) if "Max" in type(layer).__name__ else ("average_pool", "float")
    )
    if hasattr(layer, "pool_size"):
        return call.add(op, *call.inputs, kind=kind, attributes=attributes)
    shape = [*flat, before.shape[-1]]
    return _reshape(call, call.add(op, *call.inputs, kind=kind, attributes=attributes, shape=shape))


def _windows(call, shape, size, strides, dilation, padding) -> dict[str, Any]:
    """The attributes of windows.

    Padding "same" gives `ceil(length / stride)` places along an axis. What it adds is split into
    halves; an odd one goes to the end.
    """
    _channels_last(call)
    pads = []
    for length, taps, stride, rate in zip(shape[:-1], size, strides, dilation, strict=True):
        reach = (taps - 1) * rate
        total = {
            "valid": 0,
            "causal": reach,
            "same": max((-(-length // stride) - 1) * stride + reach + 1 - length, 0),
        }[padding]
        before = total if padding == "causal" else total // 2
        pads.append([int(before), int(total - before)])
    lists = {"input_shape": shape, "size": size, "strides": strides, "dilation": dilation}
    return {name: [int(one) for one in values] for name, values in lists.items()} | {"pads": pads}


def _products(call):
    """Dense layers and convolutions, of floats or of signs."""
    layer, number, kernel, scale = call.layer, call.inputs[0], call.layer.kernel, None
    if isinstance(layer, BinaryLayer):
        kernel, scale = _array(layer.binary_kernel()), layer.kernel_scale()
        binary = np.isin(kernel, (-1, 1)).all()
        call.require(binary, "have a kernel of -1 and +1", layer.kernel_quantizer)
        kernel = kernel.astype("int8")
        if layer.input_sign is not None:
            number = _bits(call, number, layer.input_sign)
    else:
        kernel = _array(kernel)
    number = _product(call, number, kernel)
    if scale is not None:
        number = call.add("affine", number, scale=_array(scale).reshape(-1))
    if layer.bias is not None:
        number = call.add("affine", number, offset=_array(layer.bias))
    return _activated(call, number, layer.activation)


def _product(call, number, kernel):
    layer, before, attributes = call.layer, call.trace.program.steps[number], {}
    if hasattr(layer, "kernel_size"):
        groups = getattr(layer, "groups", 1)
        if hasattr(layer, "depth_multiplier"):  # each channel is a group
            groups = kernel.shape[-2]
            kernel = kernel.reshape(*kernel.shape[:-2], 1, -1)
        geometry = (layer.kernel_size, layer.strides, layer.dilation_rate, layer.padding)
        attributes = _windows(call, before.shape, *geometry)
        attributes |= {"groups": groups, "pad_value": getattr(layer, "pad_values", 0.0)}
    op = "conv" if attributes else "dense"
    attributes["fan_in"] = math.prod(kernel.shape[:-1])
    if before.kind == "bits":
        return call.add(f"binary_{op}", number, kind="int", attributes=attributes, kernel=kernel)
    return call.add(op, number, attributes=attributes, kernel=kernel)


_RANKS = ("1D", "2D", "3D")
_FUNCTIONS = {
    "HardTanh": "hard_tanh",
    "Relu": "relu",
    "Relu6": "relu6",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
}
_PRODUCTS = ("Dense", "Conv{}", "DepthwiseConv{}")
_POOLINGS = ("MaxPooling{}", "AveragePooling{}", "GlobalMaxPooling{}", "GlobalAveragePooling{}")
_IN_TRAINING = (
    "ActivityRegularization",
    "ConvertToTensor",
    "Dropout",
    "GaussianDropout",
    "GaussianNoise",
    "Identity",
    "SpatialDropout{}",
)


def _each(names, rule):
    return {name.format(rank): rule for name in names for rank in _RANKS}


# By the name of the class: layers of Keras and of `dann`, and the operations behind `keras.ops`.
RULES: Mapping[str, Callable[[Call], int]] = {
    "Activation": _activation,
    "Add": _add,
    "BatchNormalization": _batch_normalization,
    "BinarySign": _sign,
    "Concatenate": _concatenate,
    "Flatten": _reshape,
    "LeakyReLU": _leaky_relu,
    "LeakyRelu": _leaky_relu,
    "Multiply": _multiply,
    "PReLU": _prelu,
    "ReLU": _relu,
    "Rescaling": _rescaling,
    "Reshape": _reshape,
    "RPReLU": _rprelu,
    "RSign": _rsign,
    "Softmax": _softmax,
    **dict.fromkeys(_FUNCTIONS, _function),
    **_each(_IN_TRAINING, _nothing),
    **_each(_POOLINGS, _pool),
    **_each(_PRODUCTS, _products),
    **_each([f"Binary{name}" for name in _PRODUCTS], _products),
}
