"""The LeNet of the published digit experiments."""

from collections.abc import Sequence

import keras
from keras import layers

from dann.networks.heads import initializers
from dann.networks.inputs import image_inputs


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

    Convolution 5x5, max pooling 2x2, ReLU; convolution 5x5, dropout of whole channels, max pooling
    2x2, ReLU; flat; dense, ReLU, dropout. With `bottleneck_units` a dense layer, batch
    normalization and ReLU follow, as in the common library's DANN and CDAN: then the discriminator
    and the label head read features that no dropout has touched.

    Args:
        input_shape: Height, width (at least 16 each) and channels of the images.
        filters: Channels of the two convolutions. Defaults to `(20, 50)`.
        units: Units of the dense layer. Defaults to `500`.
        dropout: Share of channels, and of the dense layer's units, dropped in training, in [0, 1).
            Defaults to `0.5`.
        bottleneck_units: Units of the bottleneck; the common library has 256. Defaults to `None`:
            no bottleneck; the features are those of the dense layer.
        initializer: `"keras"` (default) or `"torch"`: the default initial weights of either.

    The other arguments are those of every backbone; see `dann.networks`.

    Raises:
        ValueError: Also if `initializer` is unknown.

    Example:

    >>> from dann.networks import lenet_backbone
    >>> lenet_backbone(bottleneck_units=256).output_shape
    (None, 256)

    Reference:
        - [Jiang et al., 2022](https://arxiv.org/abs/2201.05867), the Transfer-Learning-Library,
          whose digit scripts train this network.
    """
    inputs, x = image_inputs("lenet_backbone", input_shape, 16, input_range)
    for place, channels in enumerate(filters):
        x = layers.Conv2D(channels, 5, **initializers(initializer, 25 * x.shape[-1]))(x)
        if place and dropout:
            x = layers.SpatialDropout2D(dropout)(x)
        x = layers.ReLU()(layers.MaxPooling2D()(x))
    x = layers.Flatten()(x)
    x = layers.Dense(units, activation="relu", **initializers(initializer, x.shape[-1]))(x)
    if dropout:
        x = layers.Dropout(dropout)(x)
    if bottleneck_units is not None:
        x = layers.Dense(bottleneck_units, **initializers(initializer, units))(x)
        x = layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x)
        x = layers.ReLU()(x)
    return keras.Model(inputs, x, name=name)
