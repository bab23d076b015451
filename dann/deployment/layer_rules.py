"""The table of what can be packed: how a call of each layer becomes steps of a program."""

import math
from collections.abc import Callable, Mapping, Sequence
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


def _function(name):
    return lambda call: call.add("activation", attributes={"function": name})


def _relu(call):
    layer = call.layer
    call.require(not layer.threshold, "have no `threshold`", layer.threshold)
    if not layer.negative_slope and layer.max_value in (None, 6):
        return _function("relu6" if layer.max_value else "relu")(call)
    call.require(layer.max_value is None, "have no `max_value` but 6", layer.max_value)
    return _leaky_relu(call)


def _leaky_relu(call):
    return call.add("prelu", slopes=_channels(call, call.layer.negative_slope))


def _rprelu(call):
    layer = call.layer
    number = call.add("affine", offset=-_channels(call, layer.input_shift))
    number = call.add("prelu", number, slopes=_channels(call, layer.slope))
    return call.add("affine", number, offset=_channels(call, layer.output_shift))


def _bits(call, number, layer):
    """Adds the signs of a step, if the estimator of a `BinarySign` gives signs."""
    probe = np.array([-3.0, -1.0, -0.3, -1e-9, -0.0, 0.0, 1e-9, 0.3, 1.0, 3.0], "float32")
    given = _array(layer.estimator(ops.convert_to_tensor(probe)))
    signs = np.array_equal(given, np.where(probe >= 0, 1, -1)) and not layer.estimator.pooled
    call.require(signs, "quantize its inputs to their signs", layer.estimator)
    return call.program.signs_of(number, call.name)


def _sign(call):
    return call.add("signs", _bits(call, call.inputs[0], call.layer))


def _rsign(call):
    number = call.add("affine", offset=-_channels(call, call.layer.threshold))
    return call.add("signs", _bits(call, number, call.layer))


def _batch_normalization(call):
    layer = call.layer
    # The layer's own operations in its order, because ties must round the same way.
    scale = ops.rsqrt(layer.moving_variance + layer.epsilon)
    scale = scale * layer.gamma if layer.scale else scale
    shift = layer.moving_mean * scale
    offset = layer.beta - shift if layer.center else -shift
    return call.add("affine", scale=_array(scale), offset=_array(offset))


def _rescaling(call):
    scale, offset = (_channels(call, one) for one in (call.layer.scale, call.layer.offset))
    return call.add("affine", scale=scale, offset=offset)


def _number(call):
    """What is added to, or multiplied with, the one input of a call; `None` if there are more."""
    others = [one for one in call.arguments if not isinstance(one, keras.KerasTensor)]
    return _channels(call, others[0]) if others and len(call.inputs) == 1 else None


def _add(call):
    number = _number(call)
    if number is not None:
        return call.add("affine", offset=number)
    shapes = [call.program.steps[one].shape for one in call.inputs]
    same = all(list(shape) == call.shape for shape in shapes)
    call.require(same, "add outputs of one shape", shapes)
    return call.add("add")


def _multiply(call):
    number = _number(call)
    call.require(number is not None, "multiply with a number, or one for each channel,", "layers")
    return call.add("affine", scale=number)


def _pool(call):
    layer, before = call.layer, call.program.steps[call.inputs[0]]
    op = "max_pool" if "Max" in type(layer).__name__ else "average_pool"
    *image, channels = before.shape
    flat = [1] * len(image)
    if hasattr(layer, "pool_size"):
        windows = _windows(before.shape, layer.pool_size, layer.strides, flat, layer.padding)
        return call.add(op, attributes=windows)
    windows = _windows(before.shape, image, image, flat, "valid")
    return call.add("reshape", call.add(op, attributes=windows, shape=[*flat, channels]))


def _windows(
    shape: Sequence[int], size: Any, strides: Any, dilation: Any, padding: str
) -> dict[str, Any]:
    """The attributes of windows.

    Padding "same" gives `ceil(length / stride)` places along an axis. What it adds is split into
    halves; an odd one goes to the end.
    """
    pads = []
    for length, taps, stride, rate in zip(shape[:-1], size, strides, dilation, strict=True):
        total = reach = (taps - 1) * rate
        if padding == "same":
            total = max((-(-length // stride) - 1) * stride + reach + 1 - length, 0)
        before = {"valid": 0, "causal": total, "same": total // 2}[padding]
        pads.append([before, 0 if padding == "valid" else total - before])
    lists = {"size": size, "strides": strides, "dilation": dilation, "pads": pads}
    return {name: list(values) for name, values in lists.items()}


def _products(call):
    """Dense layers and convolutions, of floats or of signs."""
    layer, number, scale = call.layer, call.inputs[0], None
    if isinstance(layer, BinaryLayer):
        kernel, scale = _array(layer.binary_kernel()).astype("int8"), layer.kernel_scale()
        binary = np.isin(layer.binary_kernel(), (-1, 1)).all()
        call.require(binary, "have a kernel of -1 and +1", layer.kernel_quantizer)
        if layer.input_sign is not None:
            number = _bits(call, number, layer.input_sign)
    else:
        kernel = _array(layer.kernel)
    number = _product(call, number, kernel)
    if scale is not None:
        number = call.add("affine", number, scale=_array(scale).reshape(-1))
    if layer.bias is not None:
        number = call.add("affine", number, offset=_array(layer.bias))
    return call.activated(number, layer.activation)


def _product(call, number, kernel):
    layer, before, attributes = call.layer, call.program.steps[number], {}
    if hasattr(layer, "kernel_size"):
        groups = getattr(layer, "groups", 1)
        if hasattr(layer, "depth_multiplier"):  # each channel is a group
            groups = kernel.shape[-2]
            kernel = kernel.reshape(*kernel.shape[:-2], 1, -1)
        geometry = (layer.kernel_size, layer.strides, layer.dilation_rate, layer.padding)
        attributes = _windows(before.shape, *geometry)
        attributes |= {"groups": groups, "pad_value": getattr(layer, "pad_values", 0.0)}
    op = "conv" if attributes else "dense"
    op = f"binary_{op}" if before.kind == "bits" else op
    attributes["fan_in"] = math.prod(kernel.shape[:-1])
    return call.add(op, number, attributes=attributes, kernel=kernel)


# By the name of the class: layers of Keras and of `dann`, and the operations behind `keras.ops`.
RULES: Mapping[str, Callable[[Call], int]] = {
    "Activation": lambda call: call.activated(call.inputs[0], call.layer.activation),
    "Add": _add,
    "BatchNormalization": _batch_normalization,
    "BinarySign": _sign,
    "Concatenate": lambda call: call.add("concatenate"),
    "Flatten": lambda call: call.add("reshape"),
    "HardTanh": _function("hard_tanh"),
    "LeakyReLU": _leaky_relu,
    "LeakyRelu": _leaky_relu,
    "Multiply": _multiply,
    "PReLU": lambda call: call.add("prelu", slopes=_channels(call, call.layer.alpha)),
    "ReLU": _relu,
    "Relu": _function("relu"),
    "Relu6": _function("relu6"),
    "Rescaling": _rescaling,
    "Reshape": lambda call: call.add("reshape"),
    "RPReLU": _rprelu,
    "RSign": _rsign,
    "Sigmoid": _function("sigmoid"),
    "Softmax": _function("softmax"),
    "Tanh": _function("tanh"),
    **{
        f"{name}{rank}": rule
        for rank in ("", "1D", "2D", "3D")
        for rule, names in {
            _products: "Dense BinaryDense Conv BinaryConv DepthwiseConv BinaryDepthwiseConv",
            _pool: "MaxPooling AveragePooling GlobalMaxPooling GlobalAveragePooling",
            # What acts in training only adds no step.
            (lambda call: call.inputs[0]): "ActivityRegularization ConvertToTensor Dropout "
            "GaussianDropout GaussianNoise Identity SpatialDropout",
        }.items()
        for name in names.split()
    },
}
