"""Eight checkpoints of a linear model whose accuracies are known, and data for their scores.

A point at the angle `a` is given the class `c` whose direction, `120 c + turn` degrees, is nearest.
Source points lie within 50 degrees of `120 c`, target points within 50 degrees of `120 c + 40`, so
that the checkpoint turned by 40 degrees is right on all of the target, and one turned by `t` on the
offsets within 60 degrees of `t - 40`.
"""

import keras
import numpy as np
from support.networks import linear

from dann.adaptation import DANN

TURNS = (0, 10, 20, 30, 40, 50, 60, 70)
SHIFT = 40
OFFSETS = np.linspace(-50, 50, 21) + 0.3  # never on a boundary


def _points(shift):
    angles = np.concatenate([120 * label + shift + OFFSETS for label in range(3)])
    labels = np.repeat([0, 1, 2], len(OFFSETS))
    radii = 1 + 0.3 * np.sin(np.arange(len(angles)))
    radians = np.deg2rad(angles)
    inputs = radii[:, None] * np.stack([np.cos(radians), np.sin(radians)], axis=1)
    order = np.random.default_rng(0).permutation(len(labels))
    return inputs[order].astype("float32"), labels[order]


SOURCE = _points(0)
TARGET = _points(SHIFT)[0]


def _weights(turn):
    a = np.deg2rad(turn)
    rotation = np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])
    directions = np.deg2rad([0, 120, 240])
    return rotation, 3 * np.stack([np.cos(directions), np.sin(directions)])


def checkpoint(turn):
    """A model whose features are the inputs turned back by `turn` degrees."""
    model = DANN(linear(2, 2), label_head=linear(2, 3), domain_head=linear(2, 1))
    rotation, directions = _weights(turn)
    model.backbone.trainable_weights[0].assign(rotation)
    model.label_head.trainable_weights[0].assign(directions)
    return model


def features(turn, inputs):
    """The features of `checkpoint(turn)` in double precision."""
    return np.asarray(inputs, "float64") @ _weights(turn)[0]


def logits(turn, inputs):
    """The logits of `checkpoint(turn)` in double precision."""
    return features(turn, inputs) @ _weights(turn)[1]


def target_accuracy(turn):
    """By the angles alone."""
    return np.mean(np.abs(OFFSETS + SHIFT - turn) < 60)


def as_logits(dtype="float32", classes=3):
    """A model that gives its inputs for logits."""
    entry = keras.Input((classes,), dtype=dtype)
    return keras.Model(entry, keras.layers.Identity(dtype=dtype)(entry))
