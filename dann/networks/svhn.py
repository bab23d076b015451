"""The architecture of the DANN paper's SVHN experiments."""

from collections.abc import Sequence

import keras
from keras import layers

from dann.networks.input_shape import check_input_shape
from dann.networks.rescaling import rescale


def svhn_backbone(
    input_shape: Sequence[int] = (32, 32, 3),
    input_range: Sequence[float] = (0, 255),
    name: str = "backbone",
) -> keras.Model:
    """Builds the feature extractor of the paper's SVHN experiments.

    Convolution 5x5 to 64 channels, ReLU, max pooling 3x3 with stride 2; the same again;
    convolution 5x5 to 128 channels, ReLU; flat. The convolutions are not padded. The poolings are,
    where the stride leaves a rest (sizes round up, as in Caffe), without which nothing of a 32x32
    image would be left for the third convolution. On 32x32 images that makes 128 features.

    The paper's label head has hidden layers of 3072 and 2048 units, its domain head two of 1024.

    Args:
        input_shape: Height, width (at least 29 each) and channels of the images.
        input_range: Smallest and largest pixel value; mapped to [-1, 1]. Defaults to `(0, 255)`.
        name: Name of the model.

    Returns:
        A functional model from images `(batch, height, width, channels)`, integer or float, to
        features `(batch, num_features)`.

    Raises:
        ValueError: If the inputs are no images or too small.

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), figure 4b.
    """
    shape = check_input_shape("svhn_backbone", input_shape, height=29, width=29, channels=1)
    inputs = keras.Input(shape, name="images")
    x = rescale(input_range)(inputs)
    for _ in range(2):
        x = layers.Conv2D(64, 5, activation="relu")(x)
        x = layers.MaxPooling2D(3, strides=2, padding="same")(x)
    x = layers.Conv2D(128, 5, activation="relu")(x)
    return keras.Model(inputs, layers.Flatten()(x), name=name)
