"""Heads on features: label predictor and domain discriminator."""

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import layers

from dann.checks import check_choice, check_integer


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
        num_classes: Number of classes, at least 2.
        hidden_units: Widths of the hidden layers, each followed by a ReLU.
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
    hint = "or, for regression, pass a `label_head` with one output"
    num_classes = check_integer("num_classes", num_classes, low=2, hint=hint)
    options = dropout, batch_norm, initializer, name
    return _dense_head(num_features, num_classes, hidden_units, *options)


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
    the gradient reversal. The arguments of `label_head` have the same meaning.

    Returns:
        A functional model from `(batch, num_features)` to logits `(batch, 1)`, or from maps
        `(batch, ..., num_features)` to `(batch, ..., 1)`.

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), figure 4a.
    """
    return _dense_head(num_features, 1, hidden_units, dropout, batch_norm, initializer, name)


def _dense_head(num_features, num_outputs, hidden_units, dropout, batch_norm, initializer, name):
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
