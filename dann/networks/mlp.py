"""Multilayer perceptron for flat inputs."""

from collections.abc import Sequence

import keras
from keras import layers

from dann.networks.inputs import rescale


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
