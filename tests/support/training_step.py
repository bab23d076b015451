"""One training step, compared with a method's formula in NumPy."""

import keras
import numpy as np
import pytest
from support.arrays import LABELS, PAIR, SOURCE, STRENGTH, assert_all_close
from support.closed_forms import central_differences, softmax
from support.differentiate import EAGER, XLA
from support.networks import read_weights

MODES = EAGER, "graph", XLA


def step(model, mode, x=PAIR, y=LABELS, sample_weight=None, **compiled):
    """Trains one step at learning rate 1; returns the logs and the gradient of each weight."""
    before = read_weights(model)
    options = {"jit_compile": mode == "xla", "run_eagerly": mode == "eager"}
    model.compile(keras.optimizers.SGD(1.0), **options, **compiled)
    batch = (x, y) if sample_weight is None else (x, y, sample_weight)
    # Compiled `train_on_batch` (Keras 3.15, TensorFlow 2.21) sometimes computes the gradient of a
    # product of two layers at weights that are already updated.
    batches = (data for data in [batch])  # Keras accepts only generators
    history = model.fit(batches, steps_per_epoch=1, shuffle=False, verbose=0).history
    after = read_weights(model)
    logs = {name: values[0] for name, values in history.items()}
    return logs, [old - new for old, new in zip(before, after, strict=True)]


def check_step(model, mode, terms, gradients, total=None, rtol=1e-4, atol=1e-6, **options):
    """Trains one step and compares the logged terms, the loss and every gradient.

    Args:
        model: The model.
        mode: One of `MODES`.
        terms: Expected values by name.
        gradients: Expected gradient of each trainable weight.
        total: The expected loss. Defaults to the sum of the terms.
        rtol: Relative tolerance of gradients; terms have a tenth of it.
        atol: Absolute tolerance of gradients.
        **options: Further arguments of `step`.

    Returns:
        The logs.
    """
    logs, slopes = step(model, mode, **options)
    for name, term in terms.items():
        assert logs[name] == pytest.approx(term, rel=rtol / 10), name
    total = sum(terms.values()) if total is None else total
    assert logs["loss"] == pytest.approx(total, rel=rtol / 10)
    assert_all_close(slopes, gradients, rtol=rtol, atol=atol)
    return logs


def label_loss(a, b):
    """Returns the cross-entropy of a linear network `x A B` on the source."""
    return -np.mean(np.log(softmax(SOURCE @ a @ b)[np.arange(5), LABELS]))


def check_adversarial_step(model, mode, name, objective, label_loss=label_loss, **options):
    """Compares a step of a linear network `x A B` with the objective of an adversarial method.

    Layers that the method adds descend `objective`, the label head descends the label loss, and the
    backbone descends the label loss minus `STRENGTH` times `objective`.

    Args:
        model: The model; its trainable weights are `A`, `B` and the weights that the method adds.
        mode: One of `MODES`.
        name: Name of `objective` in the logs.
        objective: The adversary's loss in NumPy, a function of `A` and the added weights.
        label_loss: The label loss in NumPy, a function of `A` and `B`.
        **options: Further arguments of `check_step`.

    Returns:
        The logs.
    """
    a, b, *extra = read_weights(model)
    label_a, label_b = central_differences(label_loss, [a, b])
    loss_a, *extra_slopes = central_differences(objective, [a, *extra])
    terms = {"label/loss": label_loss(a, b), name: objective(a, *extra)}
    gradients = [label_a - STRENGTH * loss_a, label_b, *extra_slopes]
    logs = check_step(model, mode, terms, gradients, **options)
    assert logs["strength"] == pytest.approx(STRENGTH)
    return logs


def check_regularizer(model, mode, loss, **tolerance):
    """Compares a step with the label loss plus the weighted `loss`, a function of A and B."""
    (regularizer,) = model.regularizers
    weights = read_weights(model)

    def total(a, b):
        return label_loss(a, b) + regularizer.weight * loss(a, b)

    terms = {f"{regularizer.name}/loss": loss(*weights)}
    gradients = central_differences(total, weights)
    check_step(model, mode, terms, gradients, total(*weights), **tolerance)
