"""Inputs of networks: checks of their shape, and rescaling."""

from collections.abc import Sequence
from typing import Any

import keras

from dann.checks import check_integer, check_shape, check_value_range

_REMEDIES = {  # by the number of axes of an input
    1: "use `mlp_backbone` for such inputs (in scripts: network=tabular)",
    2: "use `time_series_backbone` for such inputs (in scripts: network=time_series), or add a "
    "last axis to grayscale images",
    3: "use a network for images, such as `lenet_backbone`, for such inputs",
}


def check_input_shape(
    network: str, input_shape: Sequence[int], **min_sizes: int
) -> tuple[int, ...]:
    """Returns `input_shape` as a tuple if it fits the network.

    Args:
        network: Name of the network, for the message.
        input_shape: Shape of one input, without the batch.
        **min_sizes: Smallest size of each axis, in order, by the name of the axis.

    Raises:
        ValueError: If the number of axes is wrong, or an axis is too small.
    """
    shape, hint = tuple(input_shape), "without the batch"
    if len(shape) in _REMEDIES:
        hint += f"; {_REMEDIES[len(shape)]}"
    check_shape(f"inputs of `{network}`", shape, tuple(min_sizes), hint=hint)
    for (axis, low), size in zip(min_sizes.items(), shape, strict=True):
        check_integer(f"input_shape[{axis}]", size, low, hint=f"for `{network}`")
    return shape


def rescale(input_range: Sequence[float]) -> keras.layers.Layer:
    """Returns the layer that maps values from `input_range` to [-1, 1]."""
    low, high = check_value_range("input_range", input_range)
    return keras.layers.Rescaling(2.0 / (high - low), offset=-1.0 - 2.0 * low / (high - low))


def make_image_inputs(
    network: str,
    input_shape: Sequence[int],
    min_size: int,
    input_range: Sequence[float],
    instance_norm: bool = False,
) -> tuple[Any, Any]:
    """Returns the inputs of a network for images, and their pixels in [-1, 1].

    With `instance_norm`, an image `x` becomes `(x - m) / sqrt(v + 0.001)` in training and in
    inference, where `m` and `v` are the mean and the variance of each channel over the pixels of
    the image. This removes differences in brightness, contrast and color cast between domains.

    Args:
        network: Name of the network, for the message.
        input_shape: Height, width and channels of the images.
        min_size: Smallest height and width.
        input_range: Smallest and largest pixel value.
        instance_norm: Whether each channel of each image is normalized to mean 0 and variance 1.

    Raises:
        ValueError: If `input_shape` is not the shape of images, or is too small.

    Reference:
        - [Ulyanov et al., 2016](https://arxiv.org/abs/1607.08022), equation 3.
        - [Shu et al., 2018](https://arxiv.org/abs/1802.08735), section 6.1, which normalizes the
          inputs for adaptation.
    """
    shape = check_input_shape(network, input_shape, height=min_size, width=min_size, channels=1)
    inputs = keras.Input(shape, name="images")
    pixels = rescale(input_range)(inputs)
    if instance_norm:
        pixels = keras.layers.GroupNormalization(groups=-1, center=False, scale=False)(pixels)
    return inputs, pixels
