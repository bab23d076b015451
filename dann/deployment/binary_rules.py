"""Layers with a binary kernel as steps of a program."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from keras import ops

from dann.deployment.lowering import Rule, activated, array, require
from dann.deployment.packed_file import pack_bits
from dann.deployment.rules import geometry, sign
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
    kernels, scales = node.layer.binary_kernel(), node.layer.kernel_scale()
    if not isinstance(kernels, tuple):
        kernels, scales = (kernels,), (scales,)
    for kernel, scale in zip(kernels, scales, strict=True):
        values = np.asarray(ops.convert_to_numpy(kernel))
        binary = np.isin(values, (-1, 1)).all()
        require(binary, node, "have a kernel of -1 and +1", node.layer.kernel_estimators[0])
        yield values > 0, None if scale is None else array(scale).reshape(-1)


def _depthwise(kernel):
    """The kernel `(*window, 1, outputs)` of one group a channel, and the number of groups."""
    return kernel.reshape(*kernel.shape[:-2], 1, -1), kernel.shape[-2]


def _rows(kernel):
    """A row of bits for each output, from a kernel whose last axis is the outputs."""
    return pack_bits(kernel.reshape(-1, kernel.shape[-1]).T)


def _signs(steps, node, number):
    """The signs of the layer's inputs as bits, or the inputs if it takes floats."""
    layer = node.layer.input_sign
    return number if layer is None else sign(steps, node, number, layer)


def _finished(steps, node, number, scale):
    """Adds the scale of the kernel, bias and activation."""
    layer = node.layer
    if scale is not None:
        number = steps.add("affine", node, [number], scale=scale)
    if layer.bias is not None:
        number = steps.add("affine", node, [number], offset=array(layer.bias))
    return activated(steps, node, number, layer.activation)


def _dense(steps, node, inputs):
    number = _signs(steps, node, inputs[0])
    ((kernel, scale),) = _kernels(node)
    binary = steps[number].kind == "bits"
    op, kind = ("binary_dense", "int") if binary else ("dense", "float")
    attributes = {"fan_in": len(kernel)}
    number = steps.add(op, node, [number], kind, attributes, kernel_bits=_rows(kernel))
    return _finished(steps, node, number, scale)


def _conv(steps, node, inputs):
    ((kernel, scale),) = _kernels(node)
    groups = getattr(node.layer, "groups", 1)
    if isinstance(node.layer, BinaryDepthwiseConv2D):
        kernel, groups = _depthwise(kernel)
    number = _convolved(steps, node, inputs, node.shape, kernel, groups)
    return _finished(steps, node, number, scale)


def _convolved(steps, node, inputs, shape, kernel, groups):
    """Adds a convolution, on bits if the inputs are signs."""
    number, pad_value = _signs(steps, node, inputs[0]), node.layer.pad_values
    op, kind = ("binary_conv", "int") if steps[number].kind == "bits" else ("conv", "float")
    attributes = geometry(node, kernel.shape, groups, pad_value)
    return steps.add(op, node, [number], kind, attributes, shape, kernel_bits=_rows(kernel))


def _separable(steps, node, inputs):
    (depthwise, first), (pointwise, second) = _kernels(node)
    depthwise, groups = _depthwise(depthwise)
    outputs = depthwise.shape[-1]
    shape = [*node.shape[:-1], outputs]
    number = _convolved(steps, node, inputs, shape, depthwise, groups)
    if first is not None:
        number = steps.add("affine", node, [number], shape=shape, scale=first)
    rows = _rows(pointwise.reshape(outputs, -1))
    number = steps.add("dense", node, [number], attributes={"fan_in": outputs}, kernel_bits=rows)
    return _finished(steps, node, number, second)


RULES: Mapping[Any, Rule] = {
    BinaryDense: _dense,
    BinaryConv1D: _conv,
    BinaryConv2D: _conv,
    BinaryConv3D: _conv,
    BinaryDepthwiseConv2D: _conv,
    BinarySeparableConv1D: _separable,
    BinarySeparableConv2D: _separable,
}
