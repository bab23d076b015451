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
)


def _kernel(node):
    """The kernel's signs, as booleans, and its scale for every output channel or `None`."""
    values = np.asarray(ops.convert_to_numpy(node.layer.binary_kernel()))
    binary = np.isin(values, (-1, 1)).all()
    require(binary, node, "have a kernel of -1 and +1", node.layer.kernel_quantizer)
    scale = node.layer.kernel_scale()
    return values > 0, None if scale is None else array(scale).reshape(-1)


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
    kernel, scale = _kernel(node)
    binary = steps[number].kind == "bits"
    op, kind = ("binary_dense", "int") if binary else ("dense", "float")
    attributes = {"fan_in": len(kernel)}
    number = steps.add(op, node, [number], kind, attributes, kernel_bits=_rows(kernel))
    return _finished(steps, node, number, scale)


def _conv(steps, node, inputs):
    kernel, scale = _kernel(node)
    groups = getattr(node.layer, "groups", 1)
    if isinstance(node.layer, BinaryDepthwiseConv2D):
        kernel, groups = _depthwise(kernel)
    number, pad_value = _signs(steps, node, inputs[0]), node.layer.pad_values
    op, kind = ("binary_conv", "int") if steps[number].kind == "bits" else ("conv", "float")
    attributes = geometry(node, kernel.shape, groups, pad_value)
    number = steps.add(op, node, [number], kind, attributes, kernel_bits=_rows(kernel))
    return _finished(steps, node, number, scale)


RULES: Mapping[Any, Rule] = {
    BinaryDense: _dense,
    BinaryConv1D: _conv,
    BinaryConv2D: _conv,
    BinaryConv3D: _conv,
    BinaryDepthwiseConv2D: _conv,
}
