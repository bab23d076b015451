"""Heads on flat features: the label predictor and the domain discriminator."""

from collections.abc import Sequence

import keras
from keras import layers

from dann.checks import check_integer


def label_head(
    num_features: int,
    num_classes: int,
    hidden_units: Sequence[int] = (100, 100),
    dropout: float = 0.0,
    name: str = "label_head",
) -> keras.Model:
    """Builds the label predictor: features to one logit a class.

    The defaults are those of the paper's MNIST architecture.

    Args:
        num_features: Length of the features.
        num_classes: Number of classes, at least 2.
        hidden_units: Widths of the hidden layers, each followed by a ReLU.
        dropout: Share of hidden units dropped in training, in [0, 1). Defaults to `0.0`.
        name: Name of the model.

    Returns:
        A functional model from `(batch, num_features)` to logits `(batch, num_classes)`.

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), figure 4a.
    """
    why = "else give a `label_head` of one output, for regression"
    check_integer("num_classes", num_classes, low=2, why=why)
    return _dense_head(num_features, num_classes, hidden_units, dropout, name)


def domain_head(
    num_features: int,
    hidden_units: Sequence[int] = (100,),
    dropout: float = 0.0,
    name: str = "domain_head",
) -> keras.Model:
    """Builds the domain discriminator: features to one logit, above 0 for the target domain.

    The defaults are those of the paper's MNIST architecture. The reversal is not part of it.
    Arguments: see `label_head`.

    Returns:
        A functional model from `(batch, num_features)` to logits `(batch, 1)`.

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), figure 4a.
    """
    return _dense_head(num_features, 1, hidden_units, dropout, name)


def _dense_head(num_features, num_outputs, hidden_units, dropout, name):
    inputs = keras.Input((num_features,), name="features")
    x = inputs
    for units in hidden_units:
        x = layers.Dense(units, activation="relu")(x)
        if dropout:
            x = layers.Dropout(dropout)(x)
    # Logits feed a loss; half precision would round them.
    outputs = layers.Dense(num_outputs, dtype="float32", name="logits")(x)
    return keras.Model(inputs, outputs, name=name)
