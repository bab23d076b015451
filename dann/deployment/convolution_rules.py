"""Float convolutions and poolings as steps of a program."""

from collections.abc import Sequence

import numpy as np
from keras import layers

from dann.deployment.layer_rules import activated, array, check_channels_last, reshape


def convolution(node, kernel_shape, groups, pad_value=0.0) -> dict:
    """Returns the attributes of a convolution.

    Args:
        node: Call of a Keras convolution.
        kernel_shape: Shape of its kernel: window, inputs of a group, outputs.
        groups: Number of groups.
        pad_value: Value of the padding.
    """
    layer, shape = node.layer, node.inputs[0].shape
    check_channels_last(node)
    spatial, size = shape[:-1], kernel_shape[:-2]
    dilation = [int(rate) for rate in layer.dilation_rate]
    pads = [[0, 0] for _ in spatial]
    if layer.padding == "same":
        pads = _same_padding(spatial, size, layer.strides, dilation)
    elif layer.padding == "causal":
        pads = [[(size[0] - 1) * dilation[0], 0]]
    return {
        "input_shape": list(shape),
        "size": [int(length) for length in size],
        "strides": [int(stride) for stride in layer.strides],
        "dilation": dilation,
        "pads": pads,
        "groups": groups,
        "pad_value": pad_value,
        "fan_in": int(np.prod(kernel_shape[:-1])),
        "macs": int(np.prod(node.shape) * np.prod(kernel_shape[:-1])),
    }


def _same_padding(
    shape: Sequence[int], size: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> list[list[int]]:
    """Returns what padding `"same"` adds before and after each axis.

    The output of an axis has `ceil(length / stride)` places. The padding for that is split into
    halves; an odd one goes to the end.
    """
    pads = []
    for length, taps, stride, rate in zip(shape, size, strides, dilation, strict=True):
        reach = (taps - 1) * rate + 1
        total = max((-(-length // stride) - 1) * stride + reach - length, 0)
        pads.append([total // 2, total - total // 2])
    return pads


def _conv(steps, node, inputs):
    layer = node.layer
    kernel = array(layer.kernel)
    groups = getattr(layer, "groups", 1)
    if isinstance(layer, layers.DepthwiseConv1D | layers.DepthwiseConv2D):
        groups = kernel.shape[-2]
        kernel = kernel.reshape(*kernel.shape[:-2], 1, -1)
    bias = array(layer.bias) if layer.use_bias else None
    attributes = convolution(node, kernel.shape, groups)
    number = steps.emit(
        "conv", node.name, inputs, node.shape, attributes=attributes, kernel=kernel, bias=bias
    )
    return activated(steps, node, number, layer.activation)


def _pool(steps, node, inputs):
    layer, spatial = node.layer, node.inputs[0].shape[:-1]
    check_channels_last(node)
    whole = not hasattr(layer, "pool_size")  # global pooling
    size = list(spatial) if whole else [int(length) for length in layer.pool_size]
    strides = size if whole else [int(stride) for stride in layer.strides]
    flat = [1] * len(size)
    same = not whole and layer.padding == "same"
    attributes = {
        "input_shape": list(node.inputs[0].shape),
        "size": size,
        "strides": strides,
        "dilation": flat,
        "pads": _same_padding(spatial, size, strides, flat) if same else [[0, 0] for _ in size],
    }
    shape = [*flat, node.shape[-1]] if whole else node.shape
    maximum = "Max" in type(layer).__name__
    kind = steps[inputs[0]].kind if maximum else "float"
    op = "max_pool" if maximum else "average_pool"
    number = steps.emit(op, node.name, inputs, shape, kind, attributes)
    return reshape(steps, node, [number]) if whole else number


_POOLS = [
    getattr(layers, f"{kind}Pooling{rank}D")
    for kind in ("Max", "Average", "GlobalMax", "GlobalAverage")
    for rank in (1, 2, 3)
]
LAYERS = {
    layers.Conv1D: _conv,
    layers.Conv2D: _conv,
    layers.Conv3D: _conv,
    layers.DepthwiseConv1D: _conv,
    layers.DepthwiseConv2D: _conv,
    **dict.fromkeys(_POOLS, _pool),
}
