"""LeNet of the published digit experiments, and a binary network for digits."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import layers

from dann.networks.heads import make_initializers
from dann.networks.inputs import make_image_inputs
from dann.networks.layer_factory import LayerFactory, batch_normalize


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


def binary_lenet_backbone(
    input_shape: Sequence[int] = (28, 28, 3),
    filters: Sequence[int] = (32, 48),
    binary: bool = True,
    first_layer: str = "float",
    input_estimator: Any = "htanh",
    kernel_estimator: Any = "htanh",
    input_range: Sequence[float] = (0, 255),
    name: str = "backbone",
    instance_norm: bool = False,
) -> keras.Model:
    """Builds the feature extractor of the DANN paper's MNIST experiments with binary layers.

    Two stages of a 5x5 convolution, 2x2 max pooling and batch normalization are followed by
    flattening. The signs, which replace the paper's ReLU, come after the pooling, because a maximum
    of signs would be +1 almost everywhere. For 28x28 images there are 768 features of -1 and +1.

    Use this backbone with `dann.networks.binary_label_head`.

    Args:
        input_shape: Height, width (at least 16 each) and channels of the images.
        filters: Channels of the two convolutions. Defaults to `(32, 48)`, as in the paper; a binary
            network gains from more channels.
        binary: Whether the network is binary. `False` builds its full-precision counterpart: the
            same layers with ReLU instead of the sign. Defaults to `True`.
        first_layer: `"float"` (default) for a first layer in full precision, `"binary_kernel"` for
            a binary kernel on the images, or `"binary"` for a binary kernel on their signs.
        input_estimator: Estimator for the inputs of the layers: a name or an object of
            `dann.gradients.estimators`, or `None` to binarize only the kernels. Defaults to
            `"htanh"`.
        kernel_estimator: Estimator for the kernels. Defaults to `"htanh"`.
        input_range: Smallest and largest pixel value, mapped to [-1, 1]. Defaults to `(0, 255)`.
        name: Name of the model.
        instance_norm: Whether each channel of each image is normalized to mean 0 and variance 1;
            see `dann.networks.inputs.make_image_inputs`. Defaults to `False`.

    Returns:
        A functional model from images to features; see `dann.networks`.

    Raises:
        ValueError: If `first_layer` is unknown, or `input_shape` is too small.

    Example:

    >>> from dann.networks import binary_lenet_backbone
    >>> binary_lenet_backbone((28, 28, 1)).output_shape
    (None, 768)

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), figure 4a.
        - [Rastegari et al., 2016](https://arxiv.org/abs/1603.05279), section 3.2, for pooling
          before the sign.
    """
    factory = LayerFactory(binary, input_estimator, kernel_estimator, first_layer)
    inputs, x = make_image_inputs(
        "binary_lenet_backbone", input_shape, 16, input_range, instance_norm
    )
    for index, channels in enumerate(filters):
        x = factory.activate(x) if index else x
        x = factory.convolution(channels, 5, first=index == 0)(x)
        x = batch_normalize(layers.MaxPooling2D()(x))
    return keras.Model(inputs, factory.make_features(layers.Flatten()(x)), name=name)
