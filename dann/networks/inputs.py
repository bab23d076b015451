"""Inputs of networks: the check of their shape, and the range that networks learn from."""

import numbers
from collections.abc import Sequence

import keras


def check_input_shape(network: str, input_shape: Sequence[int], **least: int) -> tuple[int, ...]:
    """Returns `input_shape` as a tuple if it fits the network.

    Args:
        network: Name of the network, for the message.
        input_shape: Shape of one input, without the batch.
        **least: Smallest size of each axis, in order, under the name of the axis.

    Raises:
        ValueError: If there are more or fewer axes, or one is too small or has no fixed size.
    """
    shape = tuple(input_shape)
    if len(shape) != len(least) or not all(map(_at_least, shape, least.values())):
        raise ValueError(
            f"`{network}` takes inputs of shape ({', '.join(least)}), each at least "
            f"{tuple(least.values())}. Received: input_shape={shape}"
        )
    return shape


def _at_least(size, least):
    return isinstance(size, numbers.Integral) and size >= least


def rescale(input_range: Sequence[float]) -> keras.layers.Layer:
    """Returns the layer that maps values from `input_range` to [-1, 1].

    Raises:
        ValueError: If the range is empty.
    """
    low, high = input_range
    if not low < high:
        raise ValueError(
            "Argument `input_range` must hold the smallest and the largest pixel value, in this "
            f"order. Received: input_range={tuple(input_range)}"
        )
    return keras.layers.Rescaling(2.0 / (high - low), offset=-1.0 - 2.0 * low / (high - low))
