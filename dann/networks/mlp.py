"""Multilayer perceptrons for flat inputs, in full precision and binary."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import layers

from dann.networks.inputs import rescale
from dann.networks.layer_factory import LayerFactory, batch_normalize


def mlp_backbone(
    input_shape: Sequence[int],
    hidden_units: Sequence[int] = (128, 128),
    dropout: float = 0.0,
    input_range: Sequence[float] | None = None,
    name: str = "backbone",
) -> keras.Model:
    """Builds a multilayer perceptron.

    Args:
        input_shape: Shape of one example, which is flattened if it has more than one axis.
        hidden_units: Widths of the layers, each followed by a ReLU; the last width is the number of
            features.
        dropout: Fraction of units dropped in training, in [0, 1). Defaults to `0.0`.
        input_range: Smallest and largest value of the inputs, which are mapped to [-1, 1]. Defaults
            to `None`: inputs are not rescaled.
        name: Name of the model.

    Returns:
        A functional model from `(batch, *input_shape)` to features `(batch, hidden_units[-1])`.
    """
    inputs = keras.Input(tuple(input_shape), name="inputs")
    x = inputs if input_range is None else rescale(input_range)(inputs)
    x = layers.Flatten()(x) if len(input_shape) > 1 else x
    for units in hidden_units:
        x = layers.Dense(int(units), activation="relu")(x)
        if dropout:
            x = layers.Dropout(dropout)(x)
    return keras.Model(inputs, x, name=name)


def binary_mlp_backbone(
    input_shape: Sequence[int],
    hidden_units: Sequence[int] = (4096, 4096, 4096),
    binary: bool = True,
    first_layer: str = "binary_kernel",
    input_estimator: Any = "htanh",
    kernel_estimator: Any = "htanh",
    input_range: Sequence[float] | None = None,
    name: str = "backbone",
) -> keras.Model:
    """Builds a multilayer perceptron with binary kernels and binary activations.

    Each layer is binary, has no bias, and is followed by batch normalization. The features are the
    signs of the last layer. With `dann.networks.binary_label_head` without hidden layers, the
    network is the perceptron of BinaryNet.

    Args:
        input_shape: Shape of one example, which is flattened if it has more than one axis.
        hidden_units: Widths of the layers; the last width is the number of features. Defaults to
            three layers of 4096 units, as in BinaryNet for MNIST.
        binary: Whether the network is binary. `False` builds its full-precision counterpart: the
            same layers with ReLU instead of the sign. Defaults to `True`.
        first_layer: `"binary_kernel"` (default) for a binary kernel on the inputs, as in BinaryNet;
            `"binary"` for a binary kernel on their signs; `"float"` for a layer in full precision.
        input_estimator: Estimator for the inputs of the layers: a name or an object of
            `dann.gradients.estimators`, or `None` to binarize only the kernels. Defaults to
            `"htanh"`.
        kernel_estimator: Estimator for the kernels. Defaults to `"htanh"`.
        input_range: Smallest and largest value of the inputs, which are mapped to [-1, 1]. Defaults
            to `None`: inputs are not rescaled.
        name: Name of the model.

    Returns:
        A functional model from `(batch, *input_shape)` to features `(batch, hidden_units[-1])` of
        -1 and +1.

    Raises:
        ValueError: If `first_layer` is unknown.

    Example:

    >>> from dann.networks import binary_mlp_backbone
    >>> binary_mlp_backbone((28, 28, 1), hidden_units=(64, 32)).output_shape
    (None, 32)

    Reference:
        - [Hubara et al., 2016](https://arxiv.org/abs/1602.02830), section 2.1.
    """
    factory = LayerFactory(binary, input_estimator, kernel_estimator, first_layer)
    inputs = keras.Input(tuple(input_shape), name="inputs")
    x = inputs if input_range is None else rescale(input_range)(inputs)
    x = layers.Flatten()(x) if len(input_shape) > 1 else x
    for index, units in enumerate(hidden_units):
        x = factory.activate(x) if index else x
        x = batch_normalize(factory.dense(units, first=index == 0)(x))
    return keras.Model(inputs, factory.make_features(x), name=name)
