"""Heads on features: label predictor, in full precision or binary, and domain discriminator."""

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import layers

from dann.checks import check_choice, check_integer
from dann.networks.layer_factory import LayerFactory, batch_normalize


def label_head(
    num_features: int | Sequence[int | None],
    num_classes: int,
    hidden_units: Sequence[int] = (100, 100),
    dropout: float = 0.0,
    name: str = "label_head",
    batch_norm: bool = False,
    initializer: str = "keras",
) -> keras.Model:
    """Builds the label predictor, from features to one logit per class.

    The defaults are taken from the paper's MNIST architecture.

    Args:
        num_features: Length of the features, or the shape of feature maps without the batch, such
            as `(None, None, 16)`, where `None` is any size. The head is applied to each position of
            a map separately, like a convolution of size 1.
        num_classes: Number of classes; 1 for regression.
        hidden_units: Widths of the hidden layers, each followed by a ReLU. Defaults to
            `(100, 100)`.
        dropout: Fraction of hidden units dropped in training, in [0, 1). Defaults to `0.0`.
        name: Name of the model.
        batch_norm: Whether batch normalization follows each hidden layer, before its ReLU. Defaults
            to `False`.
        initializer: Default initial weights of `"keras"` (default) or `"torch"`.

    Returns:
        A functional model from `(batch, num_features)` to logits `(batch, num_classes)`, or from
        maps `(batch, ..., num_features)` to `(batch, ..., num_classes)`.

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), figure 4a.
    """
    num_classes = check_integer("num_classes", num_classes, low=1)
    options = dropout, batch_norm, initializer, name
    return _build_head(num_features, num_classes, hidden_units, *options)


def domain_head(
    num_features: int | Sequence[int | None],
    hidden_units: Sequence[int] = (100,),
    dropout: float = 0.0,
    name: str = "domain_head",
    batch_norm: bool = False,
    initializer: str = "keras",
) -> keras.Model:
    """Builds the domain discriminator, from features to one logit, above 0 for the target domain.

    The defaults are taken from the paper's MNIST architecture. The discriminator does not contain
    the gradient reversal.

    Args:
        num_features: Length of the features, or the shape of feature maps; see `label_head`.
        hidden_units: Widths of the hidden layers, each followed by a ReLU. Defaults to `(100,)`.
        dropout: Fraction of hidden units dropped in training, in [0, 1). Defaults to `0.0`.
        name: Name of the model.
        batch_norm: Whether batch normalization follows each hidden layer, before its ReLU. Defaults
            to `False`.
        initializer: Default initial weights of `"keras"` (default) or `"torch"`.

    Returns:
        A functional model from `(batch, num_features)` to logits `(batch, 1)`, or from maps
        `(batch, ..., num_features)` to `(batch, ..., 1)`.

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), figure 4a.
    """
    return _build_head(num_features, 1, hidden_units, dropout, batch_norm, initializer, name)


def scale_outputs(head: keras.Model, labels: np.ndarray) -> keras.Model:
    """Returns a head with outputs in the scale of labels, for regression.

    The outputs are multiplied by the standard deviation of the labels, and shifted by their mean.
    """
    mean, scale = float(np.mean(labels, dtype="float64")), float(np.std(labels, dtype="float64"))
    layer = layers.Rescaling(scale or 1.0, mean, dtype="float32", name="scale")
    return keras.Model(head.input, layer(head.output), name=head.name)


def _build_head(num_features, num_outputs, hidden_units, dropout, batch_norm, initializer, name):
    shape = tuple(num_features) if isinstance(num_features, Sequence) else (num_features,)
    x: Any = keras.Input(shape, name="features")
    inputs = x
    for units in hidden_units:
        options = make_initializers(initializer, x.shape[-1])
        activation = None if batch_norm else "relu"
        x = layers.Dense(int(units), activation=activation, **options)(x)
        if batch_norm:
            x = layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x)
            x = layers.ReLU()(x)
        if dropout:
            x = layers.Dropout(dropout)(x)
    options = make_initializers(initializer, x.shape[-1])
    # Half precision would round the logits before the loss.
    outputs = layers.Dense(num_outputs, dtype="float32", name="logits", **options)(x)
    return keras.Model(inputs, outputs, name=name)


def make_initializers(name: str, fan_in: int) -> dict[str, Any]:
    """Returns the arguments of a layer that set the initializers of its kernel and bias.

    `"keras"` keeps the defaults: Glorot's uniform kernels, and biases of 0. `"torch"` draws both
    from the uniform distribution between `-1 / sqrt(fan_in)` and `1 / sqrt(fan_in)`, the default of
    PyTorch for dense layers and convolutions.

    Args:
        name: `"keras"` or `"torch"`.
        fan_in: Number of inputs of one output of the layer.

    Raises:
        ValueError: If `name` is unknown.
    """
    if name == "keras":
        return {}
    check_choice("initializer", name, ("keras", "torch"))
    limit = 1 / math.sqrt(fan_in)
    return {
        f"{part}_initializer": keras.initializers.RandomUniform(-limit, limit)
        for part in ("kernel", "bias")
    }


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
        num_classes: Number of classes; 1 for regression.
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
    check_integer("num_classes", num_classes, low=1)
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
