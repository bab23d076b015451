"""Linear networks, their weights, and methods on them."""

import keras
import numpy as np
from support.arrays import STRENGTH

from dann.adaptation import DANN, AdversarialModel


def network(sizes, name=None, activation=None):
    """Builds dense layers without biases."""
    inputs = x = keras.Input((sizes[0],))
    for units in sizes[1:]:
        x = keras.layers.Dense(units, activation, use_bias=False)(x)
    return keras.Model(inputs, x, name=name)


def linear(inputs, outputs, name=None):
    """Builds a network `x W` without bias."""
    return network((inputs, outputs), name)


def linear_parts():
    """Returns a backbone from 3 inputs to 4 features and a label head for 3 classes."""
    return {"backbone": linear(3, 4, "backbone"), "label_head": linear(4, 3, "label_head")}


def two_heads():
    """Builds c_kind = f B and c_size = f C."""
    inputs = keras.Input((4,))
    return keras.Model(inputs, {"kind": linear(4, 3)(inputs), "size": linear(4, 1)(inputs)})


def with_random_weights(model, seed=2):
    """Draws all trainable weights from a standard normal distribution; returns the model."""
    rng = np.random.default_rng(seed)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))
    return model


def read_weights(model):
    """Returns the trainable weights in float64: backbone, label head, further layers."""
    return [np.array(weight, "float64") for weight in model.trainable_weights]


def linear_model(method, **kwargs):
    """Builds a method for f = x A and c = f B without biases, with random weights."""
    arguments = {**linear_parts(), "strength": STRENGTH, **kwargs}
    return with_random_weights(method(**arguments))


def linear_dann(**kwargs):
    """Builds DANN with the domain head d = f w."""
    return linear_model(DANN, **{"domain_head": linear(4, 1, "domain_head"), **kwargs})


def regularized_model(regularizer, **kwargs):
    """Builds a network `x A B` with a regularizer and without an adversary."""
    return linear_model(AdversarialModel, strength=None, regularizers=[regularizer], **kwargs)
