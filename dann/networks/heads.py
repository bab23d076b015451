"""Heads on features: the label predictor and the domain discriminator."""

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
    """Builds the label predictor: features to one logit for each class.

    The defaults are those of the paper's MNIST architecture.

    Args:
        num_features: Length of the features; for maps of them their shape without the batch, such
            as `(None, None, 16)`, where `None` is any size. The head then takes each position by
            itself, as convolutions of size 1 do.
        num_classes: Number of classes, at least 2.
        hidden_units: Widths of the hidden layers, each followed by a ReLU.
        dropout: Share of hidden units dropped in training, in [0, 1). Defaults to `0.0`.
        name: Name of the model.
        batch_norm: Whether batch normalization follows each hidden layer, before its ReLU. Defaults
            to `False`.
        initializer: `"keras"` (default) or `"torch"`: the default initial weights of either.

    Returns:
        A functional model from `(batch, num_features)` to logits `(batch, num_classes)`, or from
        maps `(batch, ..., num_features)` to `(batch, ..., num_classes)`.

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), figure 4a.
    """
    why = "else give a `label_head` of one output, for regression"
    check_integer("num_classes", num_classes, low=2, why=why)
    return _dense_head(
        num_features, num_classes, hidden_units, dropout, batch_norm, initializer, name
    )


def domain_head(
    num_features: int | Sequence[int | None],
    hidden_units: Sequence[int] = (100,),
    dropout: float = 0.0,
    name: str = "domain_head",
    batch_norm: bool = False,
    initializer: str = "keras",
) -> keras.Model:
    """Builds the domain discriminator: features to one logit, above 0 for the target domain.

    The defaults are those of the paper's MNIST architecture. The reversal is not part of it.
    Arguments: see `label_head`.

    Returns:
        A functional model from `(batch, num_features)` to logits `(batch, 1)`, or from maps
        `(batch, ..., num_features)` to `(batch, ..., 1)`.

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), figure 4a.
    """
    return _dense_head(num_features, 1, hidden_units, dropout, batch_norm, initializer, name)


def _dense_head(num_features, num_outputs, hidden_units, dropout, batch_norm, initializer, name):
    several = isinstance(num_features, Sequence)
    shape = tuple(num_features) if several else (num_features,)
    inputs = keras.Input(shape, name="features")
    x: Any = inputs
    for units in hidden_units:
        start = initializers(initializer, x.shape[-1])
        x = layers.Dense(units, activation=None if batch_norm else "relu", **start)(x)
        if batch_norm:
            x = layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x)
            x = layers.ReLU()(x)
        if dropout:
            x = layers.Dropout(dropout)(x)
    start = initializers(initializer, x.shape[-1])
    # Logits feed a loss; half precision would round them.
    outputs = layers.Dense(num_outputs, dtype="float32", name="logits", **start)(x)
    return keras.Model(inputs, outputs, name=name)


def initializers(name: str, fan_in: int) -> dict[str, Any]:
    """Returns the arguments with which a layer draws its kernel and bias.

    `"keras"` keeps the defaults: Glorot's uniform kernels and biases of 0. `"torch"` draws both
    from the uniform distribution between `-1 / sqrt(fan_in)` and `1 / sqrt(fan_in)`, PyTorch's
    default for dense layers and convolutions.

    Args:
        name: `"keras"` or `"torch"`.
        fan_in: Inputs of one output of the layer.

    Raises:
        ValueError: If `name` is neither.
    """
    if name == "keras":
        return {}
    check_choice("initializer", name, ("keras", "torch"))
    limit = 1 / math.sqrt(fan_in)
    return {
        f"{part}_initializer": keras.initializers.RandomUniform(-limit, limit)
        for part in ("kernel", "bias")
    }
