"""Fully convolutional network for time series."""

from collections.abc import Sequence

import keras
from keras import layers

from dann.layers import BatchNormalization
from dann.networks.inputs import check_input_shape


def time_series_backbone(
    input_shape: Sequence[int],
    filters: Sequence[int] = (128, 256, 128),
    kernel_sizes: Sequence[int] = (8, 5, 3),
    dropout: float = 0.0,
    name: str = "backbone",
) -> keras.Model:
    """Builds a fully convolutional network for time series of fixed length.

    A stage consists of a convolution over time, padded to keep the length, batch normalization and
    ReLU. The mean over time follows the last stage. The defaults are taken from the paper.

    Inputs are not rescaled. Batch normalization compensates for a scale that all channels share. If
    the scales of the channels differ, standardize each channel with the mean and standard deviation
    of the source's training set.

    Args:
        input_shape: Number of time steps and number of channels.
        filters: Channels of each stage; the last number is the number of features.
        kernel_sizes: Kernel size of each stage in time steps.
        dropout: Fraction of features dropped in training, in [0, 1). Defaults to `0.0`.
        name: Name of the model.

    Returns:
        A functional model from series `(batch, time, channels)` to features `(batch, filters[-1])`.

    Raises:
        ValueError: If `input_shape` does not have two axes, or there is not one kernel size per
            stage.

    Reference:
        - [Wang et al., 2017](https://arxiv.org/abs/1611.06455), section II-B.
    """
    shape = check_input_shape("time_series_backbone", input_shape, time=1, channels=1)
    inputs = x = keras.Input(shape, name="series")
    for channels, size in zip(filters, kernel_sizes, strict=True):
        x = layers.Conv1D(channels, size, padding="same", use_bias=False)(x)
        x = BatchNormalization(momentum=0.95)(x)
        x = layers.ReLU()(x)
    x = layers.GlobalAveragePooling1D()(x)
    if dropout:
        x = layers.Dropout(dropout)(x)
    return keras.Model(inputs, x, name=name)
