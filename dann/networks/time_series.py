"""A fully convolutional network for time series."""

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
    """Builds a fully convolutional network for series of fixed length.

    A stage is a convolution over time, padded to keep the length, batch normalization and ReLU;
    the mean over time ends it. The defaults are the paper's.

    It takes the values as they are. Batch normalization compensates for a scale that all channels
    share. If scales differ between channels, standardise them by the source's training set.

    Args:
        input_shape: Number of points in time and of channels.
        filters: Channels of each stage; the last is the number of features.
        kernel_sizes: Points in time that each stage's convolution sees.
        dropout: Share of features dropped in training, in [0, 1). Defaults to `0.0`.
        name: Name of the model.

    Returns:
        A functional model from series `(batch, time, channels)` to features `(batch, filters[-1])`.

    Raises:
        ValueError: If the inputs are not series, or there is not one kernel size for each stage.

    Reference:
        - [Wang et al., 2017](https://arxiv.org/abs/1611.06455), section II-B.
    """
    shape = check_input_shape("time_series_backbone", input_shape, time=1, channels=1)
    inputs = keras.Input(shape, name="series")
    x = inputs
    for channels, size in zip(filters, kernel_sizes, strict=True):
        x = layers.Conv1D(channels, size, padding="same", use_bias=False)(x)
        x = BatchNormalization(momentum=0.95)(x)
        x = layers.ReLU()(x)
    x = layers.GlobalAveragePooling1D()(x)
    if dropout:
        x = layers.Dropout(dropout)(x)
    return keras.Model(inputs, x, name=name)
