"""Label head of binary layers."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import layers

from dann.checks import check_integer
from dann.networks.layer_factory import LayerFactory, batch_normalize


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
    """Builds a label predictor of binary layers, from features to one logit per class.

    Each hidden layer is binary, has no bias, and is followed by batch normalization. The last layer
    receives the signs of the last hidden layer or, without hidden layers, the features, which most
    binary backbones return as signs.

    Args:
        num_features: Length of the features.
        num_classes: Number of classes, at least 2.
        hidden_units: Widths of the hidden layers. Defaults to `(100, 100)`, as in the DANN paper.
        binary: Whether the network is binary. `False` builds its full-precision counterpart: the
            same layers with ReLU instead of the sign. Defaults to `True`.
        binary_logits: Whether the last layer is binary too and followed by batch normalization, as
            in BinaryNet. Defaults to `False`: a layer in full precision with a bias.
        input_estimator: Estimator for the inputs of the layers: a name or an object of
            `dann.gradients.estimators`, or `None` to binarize only the kernels. Defaults to
            `"htanh"`.
        kernel_estimator: Estimator for the kernels. Defaults to `"htanh"`.
        name: Name of the model.

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
    factory = LayerFactory(binary, input_estimator, kernel_estimator)
    inputs = x = keras.Input((num_features,), name="features")
    for index, units in enumerate(hidden_units):
        x = factory.activate(x) if index else x
        x = batch_normalize(factory.dense(units)(x))
    x = factory.make_features(x) if hidden_units else x
    # Half precision would round the logits before the loss.
    if binary_logits:
        x = factory.dense(num_classes, dtype="float32")(x)
        x = layers.BatchNormalization(momentum=0.9, dtype="float32", name="logits")(x)
    else:
        x = layers.Dense(num_classes, dtype="float32", name="logits")(x)
    return keras.Model(inputs, x, name=name)
