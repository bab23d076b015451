"""LeNet of the published digit experiments."""

from collections.abc import Sequence

import keras
from keras import layers

from dann.networks.heads import make_initializers
from dann.networks.inputs import make_image_inputs


def lenet_backbone(
    input_shape: Sequence[int] = (28, 28, 1),
    filters: Sequence[int] = (20, 50),
    units: int = 500,
    dropout: float = 0.5,
    bottleneck_units: int | None = None,
    initializer: str = "keras",
    input_range: Sequence[float] = (0, 255),
    name: str = "backbone",
) -> keras.Model:
    """Builds the LeNet of published results on MNIST→USPS and USPS→MNIST.

    The layers are: 5x5 convolution, 2x2 max pooling, ReLU; 5x5 convolution, dropout of whole
    channels, 2x2 max pooling, ReLU; flattening; dense layer, ReLU, dropout. With
    `bottleneck_units`, a dense layer, batch normalization and ReLU follow, as in DANN and CDAN of
    the Transfer-Learning-Library. The heads then read features without dropout.

    Args:
        input_shape: Height, width (at least 16 each) and channels of the images.
        filters: Channels of the two convolutions. Defaults to `(20, 50)`.
        units: Number of units of the dense layer. Defaults to `500`.
        dropout: Fraction of channels, and of units of the dense layer, dropped in training, in
            [0, 1). Defaults to `0.5`.
        bottleneck_units: Number of units of the bottleneck, 256 in the Transfer-Learning-Library.
            Defaults to `None`: without a bottleneck, the dense layer computes the features.
        initializer: Default initial weights of `"keras"` (default) or `"torch"`.
        input_range: Smallest and largest pixel value, mapped to [-1, 1]. Defaults to `(0, 255)`.
        name: Name of the model.

    Returns:
        A functional model from images to features; see `dann.networks`.

    Raises:
        ValueError: If `initializer` is unknown, or `input_shape` is too small.

    Example:

    >>> from dann.networks import lenet_backbone
    >>> lenet_backbone(bottleneck_units=256).output_shape
    (None, 256)

    Reference:
        - [Jiang et al., 2022](https://arxiv.org/abs/2201.05867), the Transfer-Learning-Library,
          whose digit scripts train this network.
    """
    inputs, x = make_image_inputs("lenet_backbone", input_shape, 16, input_range)
    # Sizes for 28x28 images: 24, 12, 8, 4. The fan-in of a 5x5 kernel is 25 per channel.
    for index, channels in enumerate(filters):
        x = layers.Conv2D(channels, 5, **make_initializers(initializer, 25 * x.shape[-1]))(x)
        if index and dropout:
            x = layers.SpatialDropout2D(dropout)(x)
        x = layers.ReLU()(layers.MaxPooling2D()(x))
    x = layers.Flatten()(x)
    options = make_initializers(initializer, x.shape[-1])
    x = layers.Dense(int(units), activation="relu", **options)(x)
    if dropout:
        x = layers.Dropout(dropout)(x)
    if bottleneck_units is not None:
        x = layers.Dense(bottleneck_units, **make_initializers(initializer, units))(x)
        x = layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x)
        x = layers.ReLU()(x)
    return keras.Model(inputs, x, name=name)
