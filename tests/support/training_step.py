"""One training step, to hold against a method's formula in NumPy."""

import keras
import pytest
from support.arrays import assert_all_close
from support.closed_forms import central_differences, cross_entropy
from support.modes import EAGER
from support.networks import read_weights
from support.pair import LABELS, PAIR, SOURCE, STRENGTH

# XLA compiles for long. The tests of the layers, and all on JAX, run it by default.
MODES = (EAGER, "graph", pytest.param("xla", marks=[pytest.mark.slow, pytest.mark.tensorflow]))


def step(model, mode, x=PAIR, y=LABELS, sample_weight=None, **compiled):
    """Trains one step at learning rate 1; returns the logs and the gradient of each weight."""
    before = read_weights(model)
    how = {"jit_compile": mode == "xla", "run_eagerly": mode == "eager"}
    model.compile(keras.optimizers.SGD(1.0), **how, **compiled)
    batch = (x, y) if sample_weight is None else (x, y, sample_weight)
    # Not `train_on_batch`: its compiled form (Keras 3.15, TensorFlow 2.21) at times gives a product
    # of two layers the gradient at weights that are updated already.
    batches = (one for one in [batch])
    history = model.fit(batches, steps_per_epoch=1, shuffle=False, verbose=0).history
    after = read_weights(model)
    logs = {name: values[0] for name, values in history.items()}
    return logs, [old - new for old, new in zip(before, after, strict=True)]


def check_step(model, mode, terms, gradients, total=None, rtol=1e-4, atol=1e-6, **given):
    """Trains one step and compares the logged terms, the loss and every gradient.

    Args:
        model: The model.
        mode: One of `MODES`.
        terms: Expected values by name.
        gradients: Expected gradient of each trainable weight.
        total: The expected loss. `None` is the sum of the terms.
        rtol: Which part a gradient may be off; a term, a tenth of it.
        atol: How far a gradient may be off beside that.
        given: Further arguments of `step`.

    Returns:
        The logs.
    """
    logs, slopes = step(model, mode, **given)
    for name, term in terms.items():
        assert logs[name] == pytest.approx(term, rel=rtol / 10), name
    total = sum(terms.values()) if total is None else total
    assert logs["loss"] == pytest.approx(total, rel=rtol / 10)
    assert_all_close(slopes, gradients, rtol=rtol, atol=atol)
    return logs


def label_loss(a, b):
    """The cross-entropy of a linear network `x A B` on the source."""
    return cross_entropy(SOURCE @ a @ b, LABELS)


def check_adversarial_step(model, mode, name, objective, label_loss=label_loss, **given):
    """Compares a step of a linear network `x A B` with the objective of an adversarial method.

    What the method adds descends `objective`, the label head the label loss, and the backbone the
    label loss minus `STRENGTH` times `objective`.

    Args:
        model: The model; its trainable weights are `A`, `B` and what the method adds.
        mode: One of `MODES`.
        name: Name of `objective` in the logs.
        objective: The adversary's loss in NumPy, a function of `A` and what is added.
        label_loss: The label loss in NumPy, a function of `A` and `B`.
        given: Further arguments of `check_step`.

    Returns:
        The logs.
    """
    a, b, *added = read_weights(model)
    label_a, label_b = central_differences(label_loss, [a, b])
    loss_a, *of_added = central_differences(objective, [a, *added])
    terms = {"label/loss": label_loss(a, b), name: objective(a, *added)}
    gradients = [label_a - STRENGTH * loss_a, label_b, *of_added]
    logs = check_step(model, mode, terms, gradients, **given)
    assert logs["strength"] == pytest.approx(STRENGTH)
    return logs
