"""A problem in two dimensions that training on the source alone must fail.

Two normal classes of deviation .3 lie at (-1, 0) and (1, 0) in the source, and at (.5, 2) and
(2.5, 2) in the target. The best source classifier (Fisher's discriminant) is the sign of `x1`,
which gives almost the whole target one class: it is right on 52.4% (the mean of 1 and of the
normal distribution at -.5 / .3). The direction `x1 - .75 x2` is distributed alike in both domains,
and the sign of it is right on 99.6% of either (the normal distribution at 1 / .375).

`nearer_classes` moves the target to (-.1, 1.2) and (1.9, 1.2), where the best source classifier is
right on 81.5% (the mean of 1 and of the normal distribution at .1 / .3). It is for methods that go
by the predicted classes of the target: those of `shifted_classes` are almost all the same at first,
and no disparity speaks against features that leave it so.
"""

import keras
import numpy as np
from support.networks import linear

SEEDS = range(3)
SIZE = 512
CENTERS = np.array([[-1.0, 0.0], [1.0, 0.0]])


def linear_backbone():
    """A backbone from the 2 inputs to 2 features: what is invariant can be had by a linear map."""
    return linear(2, 2, "backbone")


def draw_examples(rng, centers, labels):
    """Inputs around the centers of their classes, and the labels."""
    inputs = centers[labels] + rng.normal(scale=0.3, size=(SIZE, 2))
    return inputs.astype("float32"), labels


def shifted_classes(seed, shift=(1.5, 2.0)):
    """Returns source inputs and labels, target inputs and labels; the last are for the score."""
    rng = np.random.default_rng(seed)
    source, target = (rng.permutation(SIZE) % 2 for _ in range(2))
    return *draw_examples(rng, CENTERS, source), *draw_examples(rng, CENTERS + shift, target)


def closer_classes(seed):
    """The same with the target moved towards the source."""
    return shifted_classes(seed, (0.9, 1.2))


def target_accuracies(model, steps=600, rate=0.01, problem=shifted_classes, start=None):
    """The accuracies on the target of a model that is trained on each seed.

    `start(model, seed)` sets the weights to begin with; `None` stands for `initialize`.
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
        of_source, of_target = (rng.integers(len(x), size=64 * steps) for x in (source, target))
        pair = {"source": source[of_source], "target": target[of_target]}
        model.fit(pair, labels[of_source], batch_size=64, shuffle=False, verbose=0)
        logits = keras.ops.convert_to_numpy(model(target))
        accuracies.append(np.mean(np.argmax(logits, axis=1) == target_labels))
    return np.array(accuracies)


def initialize(model, seed):
    """Draws He's normal weights, without biases."""
    rng = np.random.default_rng(1000 + seed)
    for weight in model.trainable_variables:
        deviation = np.sqrt(2 / weight.shape[0]) if len(weight.shape) > 1 else 0.0
        weight.assign(rng.normal(size=weight.shape) * deviation)
