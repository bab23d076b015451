"""Weights of one number a channel."""

from typing import Any


def channel_shape(axis: int, input_shape: Any) -> tuple[int, ...]:
    """Returns the shape of a weight that broadcasts along every axis but that of the channels.

    Args:
        axis: Axis of the channels, which may be negative.
        input_shape: Shape of the inputs, with the batch.

    Returns:
        A shape without the batch axis, of ones but for the number of channels.

    Raises:
        TypeError: If `axis` is no integer.
        ValueError: If there is no such axis, it is the batch's, or its length is unknown.
    """
    if not isinstance(axis, int):
        raise TypeError(f"Argument `axis` must be an integer, one axis. Received: axis={axis!r}")
    rank = len(input_shape)
    place = axis % rank if -rank <= axis < rank else 0
    if place == 0 or input_shape[place] is None:
        raise ValueError(
            "Argument `axis` must be an axis of channels of fixed length, not that of the batch. "
            f"Received: axis={axis} with inputs of shape {tuple(input_shape)}"
        )
    return tuple(input_shape[place] if other == place else 1 for other in range(1, rank))
