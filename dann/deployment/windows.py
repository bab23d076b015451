"""Windows of convolutions and poolings, in any number of dimensions."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def same_padding(
    shape: Sequence[int], size: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> list[list[int]]:
    """Returns what padding `"same"` adds before and after each axis.

    The output of an axis has `ceil(length / stride)` places; what must be added for that is
    halved, and the odd one goes to the end.

    Args:
        shape: Spatial shape.
        size: Size of the window.
        strides: Steps between windows.
        dilation: Steps between the taps of a window.
    """
    pads = []
    for length, taps, stride, rate in zip(shape, size, strides, dilation, strict=True):
        reach = (taps - 1) * rate + 1
        total = max((-(-length // stride) - 1) * stride + reach - length, 0)
        pads.append([total // 2, total - total // 2])
    return pads


def padded(images: np.ndarray, pads: Sequence[Sequence[int]], values: Any) -> np.ndarray:
    """Returns images `(batch, *spatial, channels)` with a border.

    Args:
        images: The images.
        pads: Width of the border before and after each spatial axis.
        values: What the border holds: a number, or one for every channel.
    """
    if not any(map(any, pads)):
        return images
    lengths = [
        before + n + after for n, (before, after) in zip(images.shape[1:], pads, strict=False)
    ]
    whole = np.empty((images.shape[0], *lengths, images.shape[-1]), images.dtype)
    whole[...] = values
    inner = [slice(b, b + n) for n, (b, _) in zip(images.shape[1:], pads, strict=False)]
    whole[(slice(None), *inner)] = images
    return whole


def windows(images: np.ndarray, attributes: Mapping[str, Any]) -> np.ndarray:
    """Returns a view of the windows of padded images.

    Args:
        images: `(batch, *spatial, channels)`, with their border.
        attributes: Of a convolution or pooling: `size`, `strides` and `dilation`, for each axis.

    Returns:
        `(batch, *outputs, *size, channels)`.
    """
    size, strides, dilation = (attributes[name] for name in ("size", "strides", "dilation"))
    spatial, steps = images.shape[1:-1], images.strides[1:-1]
    outputs = [
        (length - (taps - 1) * rate - 1) // stride + 1
        for length, taps, stride, rate in zip(spatial, size, strides, dilation, strict=True)
    ]
    between = [step * stride for step, stride in zip(steps, strides, strict=True)]
    inside = [step * rate for step, rate in zip(steps, dilation, strict=True)]
    return np.lib.stride_tricks.as_strided(
        images,
        (images.shape[0], *outputs, *size, images.shape[-1]),
        (images.strides[0], *between, *inside, images.strides[-1]),
        writeable=False,
    )
