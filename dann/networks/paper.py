"""Backbones of the DANN paper (Ganin et al., 2016, figure 4)."""

from collections.abc import Sequence

import keras
from keras import layers

from dann.networks.inputs import make_image_inputs


def mnist_backbone(
    input_shape: Sequence[int] = (28, 28, 3),
    input_range: Sequence[float] = (0, 255),
    name: str = "backbone",
) -> keras.Model:
    """Builds the feature extractor of the paper's MNIST to MNIST-M experiment.

    The layers are: 5x5 convolution to 32 channels, ReLU, 2x2 max pooling; 5x5 convolution to 48
    channels, ReLU, 2x2 max pooling; flattening. For 28x28 images there are 768 features.

    Args:
        input_shape: Height, width (at least 16 each) and channels of the images.
        input_range: Smallest and largest pixel value, mapped to [-1, 1]. Defaults to `(0, 255)`.
        name: Name of the model.

    Returns:
        A functional model from images to features; see `dann.networks`.

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), figure 4a.
    """
    inputs, x = make_image_inputs("mnist_backbone", input_shape, 16, input_range)
    # Sizes for 28x28 images: 24, 12, 8, 4; 4 * 4 * 48 = 768 features.
    for channels in (32, 48):
        x = layers.Conv2D(channels, 5, activation="relu")(x)
        x = layers.MaxPooling2D()(x)
    return keras.Model(inputs, layers.Flatten()(x), name=name)


def svhn_backbone(
    input_shape: Sequence[int] = (32, 32, 3),
    input_range: Sequence[float] = (0, 255),
    name: str = "backbone",
) -> keras.Model:
    """Builds the feature extractor of the paper's SVHN experiments.

    Two stages of 5x5 convolution to 64 channels, ReLU and 3x3 max pooling with stride 2 are
    followed by a 5x5 convolution to 128 channels, ReLU and flattening. The convolutions are not
    padded. The pools are padded where the stride leaves a remainder (sizes round up, as in Caffe),
    because 32x32 images would otherwise be too small for the third convolution. For 32x32 images
    there are 128 features.

    The paper's label head has hidden layers of 3072 and 2048 units, and its domain head has two of
    1024 units.

    Args:
        input_shape: Height, width (at least 29 each) and channels of the images.
        input_range: Smallest and largest pixel value, mapped to [-1, 1]. Defaults to `(0, 255)`.
        name: Name of the model.

    Returns:
        A functional model from images to features; see `dann.networks`.

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), figure 4b.
    """
    inputs, x = make_image_inputs("svhn_backbone", input_shape, 29, input_range)
    # Sizes for 32x32 images: 28, 14, 10, 5, 1; 1 * 1 * 128 features.
    for _ in range(2):
        x = layers.Conv2D(64, 5, activation="relu")(x)
        x = layers.MaxPooling2D(3, strides=2, padding="same")(x)
    x = layers.Conv2D(128, 5, activation="relu")(x)
    return keras.Model(inputs, layers.Flatten()(x), name=name)


def gtsrb_backbone(
    input_shape: Sequence[int] = (40, 40, 3),
    input_range: Sequence[float] = (0, 255),
    name: str = "backbone",
) -> keras.Model:
    """Builds the feature extractor of the paper's Synthetic Signs to GTSRB experiment.

    Convolutions without padding, 5x5 to 96 channels, 3x3 to 144 and 5x5 to 256, are each followed
    by ReLU and 2x2 max pooling, and the last by flattening. For 40x40 images there are 1024
    features.

    The paper's label head has one hidden layer of 512 units, and its domain head has two of 1024
    units.

    Args:
        input_shape: Height, width (at least 32 each) and channels of the images.
        input_range: Smallest and largest pixel value, mapped to [-1, 1]. Defaults to `(0, 255)`.
        name: Name of the model.

    Returns:
        A functional model from images to features; see `dann.networks`.

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), figure 4c.
    """
    inputs, x = make_image_inputs("gtsrb_backbone", input_shape, 32, input_range)
    # Sizes for 40x40 images: 36, 18, 16, 8, 4, 2; 2 * 2 * 256 = 1024 features.
    for channels, size in ((96, 5), (144, 3), (256, 5)):
        x = layers.Conv2D(channels, size, activation="relu")(x)
        x = layers.MaxPooling2D()(x)
    return keras.Model(inputs, layers.Flatten()(x), name=name)
