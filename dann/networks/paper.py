"""The backbones of the DANN paper (Ganin et al., 2016, figure 4)."""

from collections.abc import Sequence

import keras
from keras import layers

from dann.networks.inputs import image_inputs


def mnist_backbone(
    input_shape: Sequence[int] = (28, 28, 3),
    input_range: Sequence[float] = (0, 255),
    name: str = "backbone",
) -> keras.Model:
    """Builds the feature extractor of the paper's MNIST to MNIST-M experiment.

    Convolution 5x5 to 32 channels, ReLU, max pooling 2x2; convolution 5x5 to 48 channels, ReLU,
    max pooling 2x2; flat. On 28x28 images that makes 768 features.

    The arguments are those of every backbone; see `dann.networks`. Height and width are
    at least 16 each.

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), figure 4a.
    """
    inputs, x = image_inputs("mnist_backbone", input_shape, 16, input_range)
    x = layers.Conv2D(32, 5, activation="relu")(x)
    x = layers.MaxPooling2D()(x)
    x = layers.Conv2D(48, 5, activation="relu")(x)
    x = layers.MaxPooling2D()(x)
    return keras.Model(inputs, layers.Flatten()(x), name=name)


def svhn_backbone(
    input_shape: Sequence[int] = (32, 32, 3),
    input_range: Sequence[float] = (0, 255),
    name: str = "backbone",
) -> keras.Model:
    """Builds the feature extractor of the paper's SVHN experiments.

    Convolution 5x5 to 64 channels, ReLU, max pooling 3x3 with stride 2; the same again;
    convolution 5x5 to 128 channels, ReLU; flat. The convolutions are not padded. The poolings are
    padded if the stride leaves a remainder (sizes round up, as in Caffe); otherwise a 32x32 image
    would be too small for the third convolution. On 32x32 images that makes 128 features.

    The paper's label head has hidden layers of 3072 and 2048 units, its domain head two of 1024.

    Arguments: as in `mnist_backbone`; height and width are at least 29 each.

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), figure 4b.
    """
    inputs, x = image_inputs("svhn_backbone", input_shape, 29, input_range)
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

    Convolution 5x5 to 96 channels, 3x3 to 144 and 5x5 to 256, each with ReLU and max pooling 2x2,
    none padded; flat. On 40x40 images that makes 1024 features.

    The paper's label head has one hidden layer of 512 units, its domain head two of 1024.

    Arguments: as in `mnist_backbone`; height and width are at least 32 each.

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), figure 4c.
    """
    inputs, x = image_inputs("gtsrb_backbone", input_shape, 32, input_range)
    for channels, size in ((96, 5), (144, 3), (256, 5)):
        x = layers.Conv2D(channels, size, activation="relu")(x)
        x = layers.MaxPooling2D()(x)
    return keras.Model(inputs, layers.Flatten()(x), name=name)
