"""Eight checkpoints of a linear model with known accuracies, and the formula of each score.

The model predicts the class `c` whose direction, `120 c + turn` degrees, is nearest to a point.
Source points are within 50 degrees of `120 c`, and target points within 50 degrees of `120 c + 40`.
The checkpoint with a turn of 40 degrees is therefore right on the whole target, and a checkpoint
with the turn `t` on the offsets within 60 degrees of `t - 40`.

Each function at the end has the name of its score.
"""

import keras
import numpy as np
from support import closed_forms
from support.closed_forms import softmax
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


def build_checkpoint(turn):
    """Returns a model whose features are the inputs rotated by `-turn` degrees."""
    model = DANN(linear(2, 2), label_head=linear(2, 3), domain_head=linear(2, 1))
    rotation, directions = _weights(turn)
    model.backbone.trainable_weights[0].assign(rotation)
    model.label_head.trainable_weights[0].assign(directions)
    return model


def compute_logits(turn, inputs):
    """Returns the logits of `build_checkpoint(turn)` in double precision."""
    rotation, directions = _weights(turn)
    return np.asarray(inputs, "float64") @ rotation @ directions


def target_accuracy(turn):
    """Returns the accuracy that follows from the angles."""
    return np.mean(np.abs(OFFSETS + SHIFT - turn) < 60)


def identity_model(classes=3):
    """Returns a model that returns its inputs as logits."""
    inputs = keras.Input((classes,))
    return keras.Model(inputs, keras.layers.Identity()(inputs))


def target_probabilities(turn, temperature=1.0):
    return softmax(compute_logits(turn, TARGET) / temperature)


def source_accuracy(turn):
    return np.mean(compute_logits(turn, SOURCE[0]).argmax(axis=1) == SOURCE[1])


def entropy(turn):
    return -closed_forms.entropy(target_probabilities(turn))


def info_max(turn):
    mean = target_probabilities(turn).mean(axis=0, keepdims=True)
    return closed_forms.entropy(mean) + entropy(turn)


def bnm(turn):
    probabilities = target_probabilities(turn)
    squares = np.linalg.eigvalsh(probabilities.T @ probabilities)  # of the singular values
    return np.sqrt(squares).sum() / np.sqrt(3 * len(probabilities))


def mcc(turn):
    probabilities = target_probabilities(turn, temperature=2.5)
    return -closed_forms.confusion(probabilities, closed_forms.certainty_weights(probabilities))


def mix_val(turn, share=0.55):
    order = np.random.default_rng(0).permutation(len(TARGET))
    classes = compute_logits(turn, TARGET).argmax(axis=1)
    first, second = order, np.roll(order, 1)
    mixtures = share * TARGET[first] + (1 - share) * TARGET[second]
    is_right = compute_logits(turn, mixtures).argmax(axis=1) == classes[first]
    is_same = classes[first] == classes[second]
    return (is_right[is_same].mean() + is_right[~is_same].mean()) / 2
