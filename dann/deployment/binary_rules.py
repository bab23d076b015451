"""Layers with a binary kernel as steps of a program."""

import numpy as np
from keras import ops

from dann.deployment.bits import pack_bits
from dann.deployment.convolution_rules import convolution
from dann.deployment.graph import PackError
from dann.deployment.layer_rules import activated, array, sign_step
from dann.layers import (
    BinaryConv1D,
    BinaryConv2D,
    BinaryConv3D,
    BinaryDense,
    BinaryDepthwiseConv2D,
    BinarySeparableConv1D,
    BinarySeparableConv2D,
)


def _kernels(node):
    """Each kernel's signs, as booleans, and its scale for every output channel or `None`."""
    layer = node.layer
    kernels, scales = layer.binary_kernel(), layer.kernel_scale()
    if not isinstance(kernels, tuple):
        kernels, scales = (kernels,), (scales,)
    for kernel, scale in zip(kernels, scales, strict=True):
        values = np.asarray(ops.convert_to_numpy(kernel))
        if not np.isin(values, (-1, 1)).all():
            raise PackError(
                f"Layer {node.name!r} must have a kernel of -1 and +1 to be packed. Received: "
                f"{layer.kernel_estimators[0]!r}"
            )
        yield values > 0, None if scale is None else array(scale).reshape(-1)


def _rows(kernel):
    """A row of bits for each output, from a kernel whose last axis is the outputs."""
    return pack_bits(kernel.reshape(-1, kernel.shape[-1]).T).astype("<u8")


def _signs(steps, node, number):
    """The signs of the layer's inputs as bits, or the inputs if it takes floats."""
    sign = node.layer.input_sign
    return number if sign is None else sign_step(steps, node, number, sign)


def _as_values(steps, node, number):
    """Bits as -1 and +1."""
    step = steps[number]
    return steps.emit("signs", node.name, [number], step.shape) if step.kind == "bits" else number


def _after(steps, node, number, scale):
    """Adds the scale of a kernel."""
    if scale is None:
        return number
    shape = steps[number].shape
    return steps.emit("affine", node.name, [number], shape, scale=scale)


def _finished(steps, node, number):
    """Adds bias and activation."""
    layer = node.layer
    if layer.bias is not None:
        bias = array(layer.bias)
        number = steps.emit("affine", node.name, [number], node.shape, offset=bias)
    return activated(steps, node, number, layer.activation)


def _dense(steps, node, inputs):
    number = _signs(steps, node, inputs[0])
    ((kernel, scale),) = _kernels(node)
    fan_in = kernel.shape[0]
    attributes = {"fan_in": fan_in, "macs": int(np.prod(node.shape)) * fan_in}
    binary = steps[number].kind == "bits"
    number = steps.emit(
        "binary_dense" if binary else "dense",
        node.name,
        [number],
        node.shape,
        "int" if binary else "float",
        attributes,
        kernel_bits=_rows(kernel),
    )
    return _finished(steps, node, _after(steps, node, number, scale))


def _conv(steps, node, inputs):
    number = _signs(steps, node, inputs[0])
    ((kernel, scale),) = _kernels(node)
    groups = getattr(node.layer, "groups", 1)
    if isinstance(node.layer, BinaryDepthwiseConv2D):
        groups = kernel.shape[-2]
        kernel = kernel.reshape(*kernel.shape[:-2], 1, -1)
    attributes = convolution(node, kernel.shape, groups, node.layer.pad_values)
    number = _summed(steps, node, number, node.shape, kernel, attributes)
    return _finished(steps, node, _after(steps, node, number, scale))


def _summed(steps, node, number, shape, kernel, attributes):
    """Adds a convolution, on bits if inputs and kernel are signs in one group."""
    signs = steps[number].kind == "bits"
    binary = signs and attributes["groups"] == 1
    return steps.emit(
        "binary_conv" if binary else "conv",
        node.name,
        [number if binary else _as_values(steps, node, number)],
        shape,
        "int" if signs else "float",
        attributes,
        kernel_bits=_rows(kernel),
    )


def _separable(steps, node, inputs):
    number = _signs(steps, node, inputs[0])
    (depthwise, first), (pointwise, second) = _kernels(node)
    groups, outputs = depthwise.shape[-2], depthwise.shape[-2] * depthwise.shape[-1]
    depthwise = depthwise.reshape(*depthwise.shape[:-2], 1, -1)
    attributes = convolution(node, depthwise.shape, groups, node.layer.pad_values)
    between = [*node.shape[:-1], outputs]
    places = int(np.prod(node.shape[:-1]))
    attributes["macs"] = places * depthwise.size
    number = _summed(steps, node, number, between, depthwise, attributes)
    number = _after(steps, node, number, first)
    pointwise = pointwise.reshape(outputs, -1)
    attributes = {"fan_in": outputs, "macs": places * pointwise.size}
    number = steps.emit(
        "dense", node.name, [number], node.shape, "float", attributes, kernel_bits=_rows(pointwise)
    )
    return _finished(steps, node, _after(steps, node, number, second))


LAYERS = {
    BinaryDense: _dense,
    BinaryConv1D: _conv,
    BinaryConv2D: _conv,
    BinaryConv3D: _conv,
    BinaryDepthwiseConv2D: _conv,
    BinarySeparableConv1D: _separable,
    BinarySeparableConv2D: _separable,
}
