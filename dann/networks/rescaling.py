"""Pixels to the range that networks learn from."""

from collections.abc import Sequence

import keras
from keras import layers


def rescale(input_range: Sequence[float]) -> keras.layers.Layer:
    """Returns the layer that maps pixels from `input_range` to [-1, 1].

    Raises:
        ValueError: If the range is empty.
    """
    low, high = input_range
    if not low < high:
        raise ValueError(
            "Argument `input_range` must hold the smallest and the largest pixel value, in this "
            f"order. Received: input_range={tuple(input_range)}"
        )
    return layers.Rescaling(2.0 / (high - low), offset=-1.0 - 2.0 * low / (high - low))
