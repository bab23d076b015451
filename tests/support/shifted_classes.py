"""A problem in two dimensions on which training on the source alone must fail.

The centers of two normal classes with standard deviation 0.3 are (-1, 0) and (1, 0) in the source,
and (0.5, 2) and (2.5, 2) in the target. The best source classifier (Fisher's discriminant) is the
sign of `x1`, which predicts one class for almost the whole target; its accuracy is 52.4% (the mean
of 1 and of the normal distribution function at -0.5 / 0.3). The distribution of `x1 - 0.75 x2` is
the same in both domains, and the accuracy of its sign is 99.6% in each (the normal distribution
function at 1 / 0.375).

`closer_classes` moves the target to (-0.1, 1.2) and (1.9, 1.2), where the accuracy of the best
source classifier is 81.5% (the mean of 1 and of the normal distribution function at 0.1 / 0.3). It
is meant for methods that use the predicted classes of the target: the initial predictions on
`shifted_classes` are almost all one class, and no disparity opposes features that keep it so.
"""

import keras
import numpy as np
from support.networks import linear

SEEDS = range(3)
SIZE = 512
CENTERS = np.array([[-1.0, 0.0], [1.0, 0.0]])


def linear_backbone():
    """Returns a backbone from 2 inputs to 2 features; a linear map suffices for invariance."""
    return linear(2, 2, "backbone")


def draw_examples(rng, centers, labels):
    """Draws inputs around the centers of their classes; returns inputs and labels."""
    inputs = centers[labels] + rng.normal(scale=0.3, size=(SIZE, 2))
    return inputs.astype("float32"), labels


def shifted_classes(seed, shift=(1.5, 2.0)):
    """Returns source inputs and labels, target inputs and labels; the last are for the accuracy."""
    rng = np.random.default_rng(seed)
    source, target = (rng.permutation(SIZE) % 2 for _ in range(2))
    return *draw_examples(rng, CENTERS, source), *draw_examples(rng, CENTERS + shift, target)


def closer_classes(seed):
    """Returns the same problem with the target closer to the source."""
    return shifted_classes(seed, (0.9, 1.2))


def target_accuracies(model, steps=600, rate=0.01, problem=shifted_classes, start=None):
    """Trains a model once per seed; returns the accuracies on the target.

    `start(model, seed)` sets the initial weights. Defaults to `initialize`.
    """
    optimizer = keras.optimizers.Adam(rate, beta_1=0.5)
    model.compile(optimizer, steps_per_execution=20)
    states = [np.array(variable) for variable in model.non_trainable_variables]
    accuracies = []
    for seed in SEEDS:
        source, labels, target, target_labels = problem(seed)
        (start or initialize)(model, seed)
        for variable, value in zip(model.non_trainable_variables, states, strict=True):
            variable.assign(value)
        for variable in optimizer.variables:
            variable.assign(np.zeros_like(variable))
        optimizer.learning_rate = rate
        keras.utils.set_random_seed(seed)
        rng = np.random.default_rng(seed)
        rows, target_rows = (rng.integers(len(x), size=64 * steps) for x in (source, target))
        pair = {"source": source[rows], "target": target[target_rows]}
        model.fit(pair, labels[rows], batch_size=64, shuffle=False, verbose=0)
        logits = keras.ops.convert_to_numpy(model(target))
        accuracies.append(np.mean(np.argmax(logits, axis=1) == target_labels))
    return np.array(accuracies)


def initialize(model, seed):
    """Draws He normal weights and sets biases to 0."""
    rng = np.random.default_rng(1000 + seed)
    for weight in model.trainable_variables:
        deviation = np.sqrt(2 / weight.shape[0]) if len(weight.shape) > 1 else 0.0
        weight.assign(rng.normal(size=weight.shape) * deviation)
