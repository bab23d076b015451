"""The backbone for MNIST of the DANN paper (Ganin et al., 2016, figure 4a)."""

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
