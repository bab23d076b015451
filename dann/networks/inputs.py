"""Inputs of networks: the check of their shape, and the range that networks learn from."""

from collections.abc import Sequence
from typing import Any

import keras

from dann.checks import check_integer, check_shape, check_value_range

_OTHERS = {  # networks by the number of axes of an input
    1: "`mlp_backbone`, in scripts network=tabular",
    2: "`time_series_backbone`, in scripts network=time_series; grey images get a last axis",
    3: "a network of images, such as `lenet_backbone`",
}


def check_input_shape(network: str, input_shape: Sequence[int], **least: int) -> tuple[int, ...]:
    """Returns `input_shape` as a tuple if it fits the network.

    Args:
        network: Name of the network, for the message.
        input_shape: Shape of one input, without the batch.
        **least: Smallest size of each axis, in order, under the name of the axis.
    """
    shape, why = tuple(input_shape), "without the batch"
    if len(shape) in _OTHERS:
        why += f"; such inputs go to {_OTHERS[len(shape)]}"
    check_shape(f"inputs of `{network}`", shape, tuple(least), why=why)
    for (axis, low), size in zip(least.items(), shape, strict=True):
        check_integer(f"input_shape[{axis}]", size, low, why=f"for `{network}`")
    return shape


def rescale(input_range: Sequence[float]) -> keras.layers.Layer:
    """Returns the layer that maps values from `input_range` to [-1, 1]."""
    low, high = check_value_range("input_range", input_range)
    return keras.layers.Rescaling(2.0 / (high - low), offset=-1.0 - 2.0 * low / (high - low))


def image_inputs(
    network: str,
    input_shape: Sequence[int],
    least: int,
    input_range: Sequence[float],
    instance_norm: bool = False,
) -> tuple[Any, Any]:
    """Returns the inputs of a network of images, and their pixels in [-1, 1].

    With `instance_norm` images `x` of `h` rows and `w` columns become `(x - m) / sqrt(v + .001)`,
    with the mean `m` and the variance `v` over the `h w` pixels of an image's channel, in training
    and inference alike. Their brightness, contrast and colour cast are then no difference between
    domains.

    Args:
        network: Name of the network, for a message.
        input_shape: Height, width and channels of the images.
        least: Smallest height and width.
        input_range: As in `rescale`.
        instance_norm: Whether each channel of each image gets mean 0 and variance 1.

    Reference:
        - [Ulyanov et al., 2016](https://arxiv.org/abs/1607.08022), equation 3.
        - [Shu et al., 2018](https://arxiv.org/abs/1802.08735), section 6.1: of the inputs, for
          adaptation.
    """
    shape = check_input_shape(network, input_shape, height=least, width=least, channels=1)
    inputs = keras.Input(shape, name="images")
    pixels = rescale(input_range)(inputs)
    if instance_norm:
        pixels = keras.layers.GroupNormalization(groups=-1, center=False, scale=False)(pixels)
    return inputs, pixels
