"""A clear word where a network is given inputs that it was not made for."""

import numbers
from collections.abc import Sequence


def check_input_shape(network: str, input_shape: Sequence[int], **least: int) -> tuple[int, ...]:
    """Returns `input_shape` as a tuple if it fits the network.

    Args:
        network: Name of the network, for the message.
        input_shape: Shape of one input, without the batch.
        **least: Smallest size of each axis, in order, under the axis' name.

    Raises:
        ValueError: If there are more or fewer axes, or one is too small or of no fixed size.
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
