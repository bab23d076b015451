"""Rules that translate the calls of layers and operations into steps of a packed program."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.deployment.kernel_rules import add_kernel_products, as_array, get_windows, quantize_output
from dann.deployment.tracing import Call, trace_calls


def _as_channels(call, values):
    """Returns a scalar, or a tensor with one number per channel of the last axis, as an array."""
    values, channels = np.atleast_1d(as_array(values)), call.input_shapes[0][-1]
    is_fit = values.size == values.shape[-1] and values.size in (1, channels)
    requirement = "use one number per channel of the last axis (PReLU: set `shared_axes`)"
    call.require(is_fit, requirement, values.shape)
    return values.reshape(-1)


def _plain_step(op, **attributes):
    return lambda call: call.add(op, attributes=attributes)


def _activation(name):
    return _plain_step("activation", function=name)


def _relu(call):
    layer = call.layer
    is_plain = not layer.threshold and not layer.negative_slope
    requirement = "have no `threshold`, `negative_slope` (use LeakyReLU), or `max_value` except 6"
    call.require(is_plain and layer.max_value in (None, 6), requirement, layer.get_config())
    return _activation("relu6" if layer.max_value else "relu")(call)


def _leaky_relu(call):
    return call.add("prelu", slopes=as_array([call.layer.negative_slope]))


def _prelu(call):
    return call.add("prelu", slopes=_as_channels(call, call.layer.alpha))


def _rprelu(call):
    layer = call.layer
    # prelu(x - input_shift) + output_shift
    number = call.add("affine", offset=-_as_channels(call, layer.input_shift))
    number = call.add("prelu", number, slopes=_as_channels(call, layer.slope))
    return call.add("affine", number, offset=_as_channels(call, layer.output_shift))


def _rsign(call):
    number = call.add("affine", offset=-_as_channels(call, call.layer.threshold))
    return quantize_output(call, number)


def _batch_normalization(call):
    layer = call.layer
    # The layer's own operations in the same order, because ties must round the same way.
    scale = ops.rsqrt(layer.moving_variance + layer.epsilon)
    scale = scale * layer.gamma if layer.scale else scale
    shift = layer.moving_mean * scale
    offset = layer.beta - shift if layer.center else -shift
    return call.add("affine", scale=as_array(scale), offset=as_array(offset))


def _elu(call):
    """Adds `elu(x)`, times `alpha` where it is negative, as Keras computes it."""
    return call.add("prelu", _activation("elu")(call), slopes=as_array([call.layer.alpha]))


def _gelu(call):
    return _activation("gelu_by_tanh" if call.layer.approximate else "gelu")(call)


def _normalization(call):
    layer = call.layer
    # (x - mean) / max(sqrt(variance), epsilon), or the inverse; each operation rounds once.
    mean, deviation = _as_channels(call, layer.mean), ops.sqrt(layer.variance)
    divisors = _as_channels(call, ops.maximum(deviation, keras.config.epsilon()))
    if layer.invert:
        return call.add("affine", scale=divisors, offset=mean)
    return call.add("divide", call.add("affine", offset=-mean), divisors=divisors)


def _rescaling(call):
    scale, offset = _as_channels(call, call.layer.scale), _as_channels(call, call.layer.offset)
    return call.add("affine", scale=scale, offset=offset)


def _join(op, array_name, call):
    """Adds a sum or product of outputs, or of an output and constants, which become an array."""
    arguments = keras.tree.flatten(call.arguments)
    constants = [value for value in arguments if not isinstance(value, keras.KerasTensor)]
    if constants and len(call.inputs) == 1:
        return call.add("affine", **{array_name: _as_channels(call, constants[0])})
    shapes = call.input_shapes
    call.require(len(set(map(len, shapes))) == 1, "join outputs of one rank", shapes)
    # The largest output comes first, because C adds or multiplies the others in place.
    order = np.argsort([-math.prod(shape) for shape in shapes], kind="stable")
    return call.add(op, *(call.inputs[index] for index in order))


def _negate(call, number):
    shape = call.program.steps[number].shape
    return call.add("affine", number, shape=shape, scale=as_array([-1.0]))


def _subtract(call):
    """Adds the first argument and the negated second argument, exactly `a - b` in float32."""
    first, second = keras.tree.flatten(call.arguments)
    if not isinstance(second, keras.KerasTensor):
        return _add(dataclasses.replace(call, arguments=[first, -as_array(second)]))
    inputs = [*call.inputs[:-1], _negate(call, call.inputs[-1])]
    return _add(dataclasses.replace(call, inputs=inputs))


def _divide(call):
    divisor = call.arguments[1]
    is_constant = not isinstance(divisor, keras.KerasTensor)
    call.require(is_constant, "divide by a constant", "a divisor that depends on the input")
    return call.add("divide", divisors=_as_channels(call, divisor))


def _take(call):
    """Adds a step that copies numbers; applies the layer to positions to find the copied ones."""
    shape, examples = call.input_shapes[0], 3
    size, index = math.prod(shape), keras.tree.flatten(call.arguments[1:])  # index of `x[...]`
    interpolation = getattr(call.layer, "interpolation", "nearest")
    call.require(interpolation == "nearest", "have interpolation='nearest'", interpolation)
    keeps_examples = not index or index[0] in (..., slice(None))
    call.require(keeps_examples, "keep all examples, as `x[:, 0]` does", index)
    # Positions in a batch of 3 flattened inputs, (examples, *shape).
    positions: Any = np.arange(examples * size, dtype="int32").reshape(examples, *shape)
    outputs = call.layer(ops.convert_to_tensor(positions), *call.arguments[1:])
    positions = ops.convert_to_numpy(outputs)
    is_separate = positions.shape == (examples, *call.shape)
    is_separate = is_separate and np.all(np.diff(positions, axis=0) == size)
    call.require(is_separate, "act on each example separately", positions.shape)
    call.require(call.shape, "keep an axis, as `x[:, :1]` does", index)
    # Copies rows of adjacent numbers, or single numbers if the rows are not adjacent.
    rows = positions[0] if np.all(np.diff(positions) == 1) else positions[0][..., None]
    starts = rows[..., 0].ravel().astype("<u4")
    return call.add("reshape", call.add("take", shape=rows.shape, starts=starts))


def _mean(call):
    """Pools the channels as pixels of a row, so that the division rounds as in the model."""
    *places, channels = call.input_shapes[0]
    # The image becomes one row of pixels with one channel each, (places * channels, 1).
    row = call.add("reshape", shape=[math.prod(places) * channels, 1])
    windows = get_windows(call.program.steps[row].shape, [channels], [channels], [1], "valid")
    means = call.add("average_pool", row, attributes=windows, shape=[math.prod(places), 1])
    return call.add("reshape", means)


def _pool(op, call):
    """Adds a pooling; a global one has windows of the size of the image, without `pool_size`."""
    layer, (*image, channels) = call.layer, call.input_shapes[0]
    pixel, is_global = [1] * len(image), not hasattr(layer, "pool_size")
    size, strides = (image, image) if is_global else (layer.pool_size, layer.strides)
    padding = "valid" if is_global else layer.padding
    windows = get_windows([*image, channels], size, strides, pixel, padding)
    if not is_global:
        return call.add(op, attributes=windows)
    return call.add("reshape", call.add(op, attributes=windows, shape=[*pixel, channels]))


def _zero_padding(call):
    """Adds a convolution with a kernel of one pixel, the number 1, whose border is the padding."""
    pads = np.reshape(call.layer.padding, (-1, 2)).tolist()
    pixel, groups = [1] * len(pads), call.shape[-1]
    attributes = get_windows(call.shape, pixel, pixel, pixel, "valid")
    attributes |= {"pads": pads, "groups": groups, "pad_value": 0.0}
    return call.add("conv", attributes=attributes, kernel=np.ones((*pixel, 1, groups), "<f4"))


def _skip(call):
    """Adds no step for a layer that acts only in training or on gradients."""
    return call.inputs


_add = functools.partial(_join, "add", "offset")
_average_pool = functools.partial(_pool, "average_pool")
_max_pool = functools.partial(_pool, "max_pool")
# By name of the class: layers, and the operations behind `keras.ops`, whose classes are not public.
_RULES: dict[str, Callable[[Call], Any]] = {
    "Absolute": lambda call: call.add("prelu", slopes=as_array([-1.0])),
    "Activation": lambda call: call.add_activation(call.inputs[0], call.layer.activation),
    "Add": _add,
    "BatchNormalization": _batch_normalization,
    "BinarySign": lambda call: quantize_output(call, call.inputs[0]),
    "Concatenate": _plain_step("concatenate"),
    "Gelu": _gelu,
    "GlobalAveragePooling3D": _average_pool,
    "GlobalMaxPooling3D": _max_pool,
    "HardSigmoid": _activation("hard_sigmoid"),
    "HardSilu": lambda call: call.add_activation(call.inputs[0], lambda x: x * ops.hard_sigmoid(x)),
    "HardTanh": _activation("hard_tanh"),
    "Mean": _mean,
    "Multiply": functools.partial(_join, "multiply", "scale"),
    "Negative": lambda call: _negate(call, call.inputs[0]),
    "Normalization": _normalization,
    "PReLU": _prelu,
    "RPReLU": _rprelu,
    "RSign": _rsign,
    "ReLU": _relu,
    "Rescaling": _rescaling,
    "Softmax": _activation("softmax"),
    "Softplus": _activation("softplus"),
    "Subtract": _subtract,
    **{name: _activation(name.lower()) for name in ("Relu", "Relu6", "Sigmoid", "Silu", "Tanh")},
    **dict.fromkeys(("ActivityRegularization", "AlphaDropout", "ConvertToTensor"), _skip),
    **dict.fromkeys(("Dropout", "GaussianDropout", "GaussianNoise", "Identity"), _skip),
    **dict.fromkeys(("GradientReversal", "RandomConvolution"), _skip),
    **dict.fromkeys(("AveragePooling1D", "AveragePooling2D", "AveragePooling3D"), _average_pool),
    **dict.fromkeys(("Conv1D", "Conv2D", "Conv3D", "Dense"), add_kernel_products),
    **dict.fromkeys(("Cropping1D", "Cropping2D", "Cropping3D"), _take),
    **dict.fromkeys(("DepthwiseConv1D", "DepthwiseConv2D"), add_kernel_products),
    **dict.fromkeys(("Divide", "TrueDivide"), _divide),
    **dict.fromkeys(("ELU", "Elu"), _elu),
    **dict.fromkeys(("Flatten", "Reshape"), _plain_step("reshape")),
    **dict.fromkeys(("GetItem", "Permute", "Transpose"), _take),
    **dict.fromkeys(("GlobalAveragePooling1D", "GlobalAveragePooling2D"), _average_pool),
    **dict.fromkeys(("GlobalMaxPooling1D", "GlobalMaxPooling2D"), _max_pool),
    **dict.fromkeys(("LeakyReLU", "LeakyRelu"), _leaky_relu),
    **dict.fromkeys(("MaxPooling1D", "MaxPooling2D", "MaxPooling3D"), _max_pool),
    **dict.fromkeys(("UpSampling1D", "UpSampling2D", "UpSampling3D"), _take),
    **dict.fromkeys(("ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D"), _zero_padding),
}


def translate_call(call: Call) -> list[int]:
    """Adds the steps of a call, and returns the numbers of the steps that compute its outputs.

    A layer of Keras or `dann` has the rule of its class or its next base class. Subclasses that are
    defined elsewhere have none, because they may compute something else.

    Raises:
        PackError: If the call cannot be packed.
    """
    layer, kind = call.layer, type(call.layer)
    are_unset = all(value is None or value is False for value in keras.tree.flatten(call.keywords))
    call.require(are_unset, "be called with only its inputs, as in inference", call.keywords)
    if isinstance(layer, keras.Model):
        return trace_calls(call.program, layer.call, call.arguments, call.inputs, call.name)
    is_known = kind.__module__.partition(".")[0] in ("dann", "keras")
    names = [base.__name__ for base in kind.__mro__ if base.__name__ in _RULES]
    requirement = "be a layer or function that docs/deployment.md lists, or a model of such layers"
    call.require(is_known and names, requirement, kind.__name__)
    is_fixed = None not in itertools.chain(*call.input_shapes, *call.shapes)
    requirement = "have a fixed size (give `keras.Input` a shape without None)"
    call.require(is_fixed, requirement, f"{call.input_shapes} to {call.shapes}")
    policy = getattr(layer, "dtype_policy", None)
    call.require(policy is None or policy.name == "float32", "compute in float32", policy)
    order, axis = getattr(layer, "data_format", None), getattr(layer, "axis", -1)
    call.require(order != "channels_first", "have data_format='channels_last'", order)
    is_last = {-1, len(call.input_shapes[0])}.issuperset(keras.tree.flatten(axis))
    call.require(is_last, "act on the last axis", f"axis={axis}")
    return keras.tree.flatten(_RULES[names[0]](call))
