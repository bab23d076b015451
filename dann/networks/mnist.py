"""The architecture of the DANN paper's MNIST experiments."""

from collections.abc import Sequence

import keras
from keras import layers

from dann.networks.input_shape import check_input_shape
from dann.networks.rescaling import rescale


def mnist_backbone(
    input_shape: Sequence[int] = (28, 28, 3),
    input_range: Sequence[float] = (0, 255),
    name: str = "backbone",
) -> keras.Model:
    """Builds the feature extractor of the paper's MNIST to MNIST-M experiment.

    Convolution 5x5 to 32 channels, ReLU, max pooling 2x2; convolution 5x5 to 48 channels, ReLU,
    max pooling 2x2; flat. On 28x28 images that makes 768 features.

    Args:
        input_shape: Height, width (at least 16 each) and channels of the images.
        input_range: Smallest and largest pixel value; mapped to [-1, 1]. Defaults to `(0, 255)`.
        name: Name of the model.

    Returns:
        A functional model from images `(batch, height, width, channels)`, integer or float, to
        features `(batch, num_features)`.

    Raises:
        ValueError: If the inputs are no images or too small.

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), figure 4a.
    """
    shape = check_input_shape("mnist_backbone", input_shape, height=16, width=16, channels=1)
    inputs = keras.Input(shape, name="images")
    x = rescale(input_range)(inputs)
    x = layers.Conv2D(32, 5, activation="relu")(x)
    x = layers.MaxPooling2D()(x)
    x = layers.Conv2D(48, 5, activation="relu")(x)
    x = layers.MaxPooling2D()(x)
    return keras.Model(inputs, layers.Flatten()(x), name=name)
