"""Inputs of networks: the check of their shape, and the range that networks learn from."""

import numbers
import operator
from collections.abc import Sequence

import keras


def check_input_shape(network: str, input_shape: Sequence[int], **least: int) -> tuple[int, ...]:
    """Returns `input_shape` as a tuple if it fits the network.

    Args:
        network: Name of the network, for the message.
        input_shape: Shape of one input, without the batch.
        **least: Smallest size of each axis, in order, under the name of the axis.
    """
    shape = tuple(input_shape)
    fixed = all(isinstance(size, numbers.Integral) for size in shape)
    if not fixed or len(shape) != len(least) or any(map(operator.lt, shape, least.values())):
        raise ValueError(
            f"`{network}` takes inputs of shape ({', '.join(least)}), each at least "
            f"{tuple(least.values())}. Received: input_shape={shape}"
        )
    return shape


def rescale(input_range: Sequence[float]) -> keras.layers.Layer:
    """Returns the layer that maps values from `input_range` to [-1, 1]."""
    low, high = input_range
    if not low < high:
        raise ValueError(
            "Argument `input_range` must hold the smallest and the largest pixel value, in this "
            f"order. Received: input_range={tuple(input_range)}"
        )
    return keras.layers.Rescaling(2.0 / (high - low), offset=-1.0 - 2.0 * low / (high - low))
