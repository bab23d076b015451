"""Small convolutional network with batch normalization."""

from collections.abc import Sequence

import keras
from keras import layers

from dann.layers import BatchNormalization
from dann.networks.inputs import make_image_inputs


def cnn_backbone(
    input_shape: Sequence[int] = (28, 28, 3),
    filters: Sequence[int] = (32, 64, 128),
    units: int = 128,
    dropout: float = 0.0,
    input_range: Sequence[float] = (0, 255),
    name: str = "backbone",
    convolutions: int = 1,
    instance_norm: bool = False,
) -> keras.Model:
    """Builds a small convolutional backbone with batch normalization.

    A stage consists of 3x3 convolutions, each with batch normalization and ReLU, and 2x2 max
    pooling. A dense layer with batch normalization and ReLU follows the last stage.

    Args:
        input_shape: Height, width (at least `2 ** len(filters)` each) and channels of the images.
            Defaults to `(28, 28, 3)`.
        filters: Channels of each stage. Defaults to `(32, 64, 128)`.
        units: Number of features. Defaults to `128`.
        dropout: Fraction of features dropped in training, in [0, 1). Defaults to `0.0`.
        input_range: Smallest and largest pixel value, mapped to [-1, 1]. Defaults to `(0, 255)`.
        name: Name of the model.
        convolutions: Number of convolutions per stage, at least 1. Defaults to `1`.
        instance_norm: Whether each channel of each image is normalized to mean 0 and variance 1, in
            training and in inference. This removes differences in brightness, contrast and color
            cast between domains. Defaults to `False`.

    Returns:
        A functional model from images to features; see `dann.networks`.

    Example:

    >>> from dann.networks import cnn_backbone
    >>> cnn_backbone((32, 32, 3), filters=(8, 16), units=10).output_shape
    (None, 10)
    """
    min_size = 2 ** len(filters)  # every stage halves the image
    inputs, x = make_image_inputs("cnn_backbone", input_shape, min_size, input_range, instance_norm)
    for channels in filters:
        for _ in range(convolutions):
            x = layers.Conv2D(channels, 3, padding="same", use_bias=False)(x)
            x = BatchNormalization(momentum=0.95)(x)
            x = layers.ReLU()(x)
        x = layers.MaxPooling2D()(x)
    x = layers.Flatten()(x)
    x = layers.Dense(int(units), use_bias=False)(x)
    x = BatchNormalization(momentum=0.95)(x)
    x = layers.ReLU()(x)
    if dropout:
        x = layers.Dropout(dropout)(x)
    return keras.Model(inputs, x, name=name)
