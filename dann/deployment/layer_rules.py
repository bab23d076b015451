"""The table of what can be packed: how a call of each layer becomes steps of a program."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.deployment.folding import find_thresholds
from dann.deployment.tracing import Call
from dann.layers.binary_layer import BinaryLayer

_LARGEST = 0x7F000000  # how many floats of full precision are above 0


def _array(values):
    """A tensor as `float32`, in the byte order of packed files."""
    return np.asarray(ops.convert_to_numpy(values), "<f4")


def _channels(call, values, what="act on the last axis"):
    """A tensor of one number, or of one for each channel of the last axis, as an array."""
    values = np.atleast_1d(_array(values))
    call.require(values.size == values.shape[-1], what, values.shape)
    return values.reshape(-1)


def _function(name):
    return lambda call: call.add("activation", attributes={"function": name})


def _relu(call):
    layer = call.layer
    plain = layer.max_value in (None, 6) and not layer.threshold and not layer.negative_slope
    what = "have no `threshold`, no `max_value` but 6, and be LeakyReLU for a `negative_slope`,"
    call.require(plain, what, layer.get_config())
    return _function("relu6" if layer.max_value else "relu")(call)


def _prelu(call):
    slopes = call.layer.alpha if hasattr(call.layer, "alpha") else call.layer.negative_slope
    what = f"have one slope a channel, `shared_axes={[*range(1, len(call.shape))]}`,"
    return call.add("prelu", slopes=_channels(call, slopes, what))


def _rprelu(call):
    layer = call.layer
    number = call.add("affine", offset=-_channels(call, layer.input_shift))
    number = call.add("prelu", number, slopes=_channels(call, layer.slope))
    return call.add("affine", number, offset=_channels(call, layer.output_shift))


def _planes(call, number, layer):
    """Adds the signs that make up what the estimator of a `BinarySign` gives, its planes.

    Of levels `l_0 < ... < l_n` that rise by steps of `d`, plane `k` is +1 where the level is at
    least `l_k`, else -1. Their sum times `d / 2`, plus `(l_0 + l_n) / 2`, is the level.

    Returns:
        The levels, and the numbers of the planes.
    """

    def numbers(order):  # every float of full precision has its place in the order
        bits = (np.abs(order) + 0x7FFFFF).astype("uint32")
        return (np.sign(order) * bits.view("float32")).astype("float32")

    def quantized(order):
        return _array(layer.estimator(ops.convert_to_tensor(numbers(order))))

    probe = quantized(np.linspace(-_LARGEST, _LARGEST, 2**16 + 1).astype("int64"))
    levels, rising = np.unique(probe), (np.diff(probe) >= 0).all()
    even = 1 < len(levels) < 5 and np.allclose(np.diff(levels), levels[1] - levels[0])
    rising = rising and even and not layer.estimator.pooled
    call.require(rising, "quantize its inputs to 2, 3 or 4 rising levels", layer.estimator)
    rises = find_thresholds(lambda order: quantized(order) >= levels[1:], len(levels) - 1, _LARGEST)
    planes, shape = [], call.program.steps[number].shape
    for start in numbers(rises[0]):
        offset = _array([-start])
        moved = call.add("affine", number, shape=shape, offset=offset) if start else number
        planes.append(call.program.signs_of(moved, call.name))
    return levels, planes


def _sum(call, terms, factor, offset):
    """Adds the sum of outputs, times a factor, plus an offset."""
    number = call.add("add", *terms) if len(terms) > 1 else terms[0]
    if factor == 1 and not np.any(offset):
        return number
    return call.add("affine", number, scale=_array([factor]), offset=_array(offset).reshape(-1))


def _quantized(call, number):
    levels, planes = _planes(call, number, call.layer)
    signs = [call.add("signs", plane) for plane in planes]
    return _sum(call, signs, (levels[1] - levels[0]) / 2, (levels[0] + levels[-1]) / 2)


def _rsign(call):
    return _quantized(call, call.add("affine", offset=-_channels(call, call.layer.threshold)))


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


def _join(call, op, array):
    """The sum or product of outputs, or of one and numbers, as an array of "affine"."""
    others = [one for one in call.arguments if not isinstance(one, keras.KerasTensor)]
    if others and len(call.inputs) == 1:
        return call.add("affine", **{array: _channels(call, others[0])})
    shapes = [call.program.steps[one].shape for one in call.inputs]
    call.require(len(set(map(len, shapes))) == 1, "join outputs of one rank", shapes)
    # The one of full shape comes first, because C computes the others into it.
    order = np.argsort([-math.prod(shape) for shape in shapes], kind="stable")
    return call.add(op, *(call.inputs[one] for one in order))


def _mean(call):
    """Pools channels as pixels of a row: a division by their number rounds as the model's does."""
    *places, channels = call.program.steps[call.inputs[0]].shape
    row = call.add("reshape", shape=[math.prod(places) * channels, 1])
    windows = _windows(call.program.steps[row].shape, [channels], [channels], [1], "valid")
    means = call.add("average_pool", row, attributes=windows, shape=[math.prod(places), 1])
    return call.add("reshape", means)


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


def _zero_padding(call):
    """A convolution of one pixel, by 1, whose border is the padding."""
    pads = np.reshape(call.layer.padding, (-1, 2)).tolist()
    flat, groups = [1] * len(pads), call.shape[-1]
    attributes = _windows(call.shape, flat, flat, flat, "valid")
    attributes |= {"pads": pads, "groups": groups, "pad_value": 0.0}
    return call.add("conv", attributes=attributes, kernel=np.ones((*flat, 1, groups), "<f4"))


def _windows(shape, size, strides, dilation, padding) -> dict[str, Any]:
    """The attributes of windows.

    Padding "same" gives `ceil(length / stride)` places along an axis. What it adds is split into
    halves; an odd one goes to the end.
    """
    pads = []
    for length, taps, stride, rate in zip(shape[:-1], size, strides, dilation, strict=True):
        reach = (taps - 1) * rate
        same = max((-(-length // stride) - 1) * stride + reach + 1 - length, 0)
        ways = {"valid": [0, 0], "causal": [reach, 0], "same": [same // 2, -(-same // 2)]}
        pads.append(ways[padding])
    lists = {"size": size, "strides": strides, "dilation": dilation, "pads": pads}
    return {name: list(values) for name, values in lists.items()}


def _products(call):
    """Dense layers and convolutions, of floats or of signs.

    A kernel of more levels than two is the mean of kernels of signs, and inputs of more levels the
    sum of their planes, so the layer is a sum of products of signs.
    """
    layer, given = call.layer, {"offset": call.layer.bias}
    kernel = _array(layer.binary_kernel() if isinstance(layer, BinaryLayer) else layer.kernel)
    if hasattr(layer, "depth_multiplier"):  # each channel is a group
        kernel = kernel.reshape(*kernel.shape[:-2], 1, -1)
    border = getattr(layer, "pad_values", 0.0)
    kernels, inputs, factor, offset = [kernel], [(call.inputs[0], border)], 1.0, 0.0
    if isinstance(layer, BinaryLayer):
        kernels, given["scale"] = _planes_of_kernel(call, kernel), layer.kernel_scale()
        if layer.input_sign is not None:
            levels, planes = _planes(call, call.inputs[0], layer.input_sign)
            middle = (levels[0] + levels[-1]) / 2
            known = getattr(layer, "padding", "valid") == "valid" or border in (middle, *levels)
            call.require(known, "have a border of one of the levels of its inputs", border)
            inputs = [
                (plane, 0.0 if border == middle else 1.0 if border >= level else -1.0)
                for plane, level in zip(planes, levels[1:], strict=True)
            ]
            factor = (levels[1] - levels[0]) / 2
            offset = middle * kernel.sum(axis=tuple(range(kernel.ndim - 1)))
    products = [_product(call, one, by, border) for one, border in inputs for by in kernels]
    number = _sum(call, products, factor / len(kernels), offset)
    arrays = {name: _array(one).ravel() for name, one in given.items() if one is not None}
    number = call.add("affine", number, **arrays) if arrays else number
    return call.activated(number, layer.activation)


def _planes_of_kernel(call, kernel):
    """The kernels of signs, at most three, whose mean is a kernel."""
    codes = (kernel + 1) / 2  # from 0 to 1
    counts = [n for n in (1, 2, 3) if np.allclose(n * codes, np.rint(n * codes))]
    even = counts and np.abs(kernel).max() <= 1
    call.require(even, "have a kernel of at most 4 even levels", call.layer.kernel_quantizer)
    bounds = np.arange(counts[0]) + 0.5
    return [np.where(counts[0] * codes > one, 1, -1).astype("int8") for one in bounds]


def _product(call, number, kernel, border):
    layer, before, attributes = call.layer, call.program.steps[number], {}
    if hasattr(layer, "kernel_size"):
        groups = before.shape[-1] // kernel.shape[-2]
        geometry = (layer.kernel_size, layer.strides, layer.dilation_rate, layer.padding)
        attributes = _windows(before.shape, *geometry)
        attributes |= {"groups": groups, "pad_value": border}
    op = "binary_" * (before.kind == "bits") + ("conv" if attributes else "dense")
    attributes["fan_in"] = math.prod(kernel.shape[:-1])
    return call.add(op, number, attributes=attributes, kernel=kernel)


# By the name of the class: layers of Keras and of `dann`, and the operations behind `keras.ops`.
RULES: Mapping[str, Callable[[Call], int]] = {
    "Absolute": lambda call: call.add("prelu", slopes=_array([-1.0])),
    "Activation": lambda call: call.activated(call.inputs[0], call.layer.activation),
    "Add": lambda call: _join(call, "add", "offset"),
    "BatchNormalization": _batch_normalization,
    "BinarySign": lambda call: _quantized(call, call.inputs[0]),
    "Concatenate": lambda call: call.add("concatenate"),
    "HardTanh": _function("hard_tanh"),
    "Mean": _mean,
    "Multiply": lambda call: _join(call, "multiply", "scale"),
    "ReLU": _relu,
    "Rescaling": _rescaling,
    "RPReLU": _rprelu,
    "RSign": _rsign,
    **{name: _function(name.lower()) for name in ("Relu", "Relu6", "Sigmoid", "Softmax", "Tanh")},
    **{
        f"{name}{rank}": rule
        for rank in ("", "1D", "2D", "3D")
        for rule, names in {
            _products: "Dense BinaryDense Conv BinaryConv DepthwiseConv BinaryDepthwiseConv",
            _zero_padding: "ZeroPadding",
            _prelu: "LeakyReLU LeakyRelu PReLU",
            (lambda call: call.add("reshape")): "Flatten Reshape",
            _pool: "MaxPooling AveragePooling GlobalMaxPooling GlobalAveragePooling",
            # What acts in training only adds no step.
            (lambda call: call.inputs[0]): "ActivityRegularization ConvertToTensor Dropout "
            "GaussianDropout GaussianNoise Identity SpatialDropout",
        }.items()
        for name in names.split()
    },
}
