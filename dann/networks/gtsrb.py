"""The architecture of the DANN paper's traffic sign experiment."""

from collections.abc import Sequence

import keras
from keras import layers

from dann.networks.input_shape import check_input_shape
from dann.networks.rescaling import rescale


def gtsrb_backbone(
    input_shape: Sequence[int] = (40, 40, 3),
    input_range: Sequence[float] = (0, 255),
    name: str = "backbone",
) -> keras.Model:
    """Builds the feature extractor of the paper's Synthetic Signs to GTSRB experiment.

    Convolution 5x5 to 96 channels, 3x3 to 144 and 5x5 to 256, each with ReLU and max pooling 2x2,
    none padded; flat. On 40x40 images that makes 1024 features.

    The paper's label head has one hidden layer of 512 units, its domain head two of 1024.

    Args:
        input_shape: Height, width (at least 32 each) and channels of the images.
        input_range: Smallest and largest pixel value; mapped to [-1, 1]. Defaults to `(0, 255)`.
        name: Name of the model.

    Returns:
        A functional model from images `(batch, height, width, channels)`, integer or float, to
        features `(batch, num_features)`.

    Raises:
        ValueError: If the inputs are no images or too small.

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), figure 4c.
    """
    shape = check_input_shape("gtsrb_backbone", input_shape, height=32, width=32, channels=1)
    inputs = keras.Input(shape, name="images")
    x = rescale(input_range)(inputs)
    for channels, size in ((96, 5), (144, 3), (256, 5)):
        x = layers.Conv2D(channels, size, activation="relu")(x)
        x = layers.MaxPooling2D()(x)
    return keras.Model(inputs, layers.Flatten()(x), name=name)
