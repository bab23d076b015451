"""A label head of binary layers."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import layers

from dann.checks import check_integer
from dann.networks.float_twin import Precision, normalized


def binary_label_head(
    num_features: int,
    num_classes: int,
    hidden_units: Sequence[int] = (100, 100),
    binary: bool = True,
    binary_logits: bool = False,
    input_estimator: Any = "htanh",
    kernel_estimator: Any = "htanh",
    name: str = "label_head",
) -> keras.Model:
    """Builds a label predictor of binary layers: features to one logit for each class.

    Each hidden layer is binary, without bias, and followed by batch normalization. The last layer
    takes the signs of the last hidden layer. Without a hidden layer it takes the features as they
    are; those of binary backbones are signs.

    Shared arguments: see `dann.networks.binary_lenet_backbone`.

    Args:
        num_features: Length of the features.
        num_classes: Number of classes, at least 2.
        hidden_units: Widths of the hidden layers. Defaults to the DANN paper's.
        binary_logits: Whether the last layer is binary too, with batch normalization after it, as
            in BinaryNet. Defaults to `False`: in full precision, with a bias.

    Returns:
        A functional model from `(batch, num_features)` to logits `(batch, num_classes)`.

    Example:

    >>> from dann.networks import binary_label_head
    >>> binary_label_head(768, 10).output_shape
    (None, 10)

    Reference:
        - [Hubara et al., 2016](https://arxiv.org/abs/1602.02830), section 2.1.
    """
    check_integer("num_classes", num_classes, low=2)
    precision = Precision(binary, input_estimator, kernel_estimator)
    inputs = keras.Input((num_features,), name="features")
    x = inputs
    for place, units in enumerate(hidden_units):
        x = precision.between(x) if place else x
        x = normalized(precision.dense(units)(x))
    x = precision.features(x) if hidden_units else x
    # Logits feed a loss; half precision would round them.
    if binary_logits:
        x = precision.dense(num_classes, dtype="float32")(x)
        x = layers.BatchNormalization(momentum=0.9, dtype="float32", name="logits")(x)
    else:
        x = layers.Dense(num_classes, dtype="float32", name="logits")(x)
    return keras.Model(inputs, x, name=name)
