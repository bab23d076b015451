"""MCD's loss and gradients, against NumPy on a linear network."""

import keras
import numpy as np
import pytest
from support.closed_forms import central_differences, softmax
from support.formulas import linear_model
from support.networks import linear, read_weights
from support.pair import LABELS, PAIR, SOURCE, STRENGTH, TARGET
from support.training_step import MODES, check_step, label_loss, step

from dann.adaptation import FDAL, MCD, MDD


def linear_mcd(**kwargs):
    """c2 = f C."""
    return linear_model(MCD, second_head=linear(4, 3, "second_head"), **kwargs)


def discrepancy(a, b, c):
    """Returns the mean absolute difference of the probabilities."""
    return np.mean(np.abs(softmax(TARGET @ a @ b) - softmax(TARGET @ a @ c)))


def compute_gradients(weights):
    a, b, c = weights
    first_slopes = central_differences(label_loss, [a, b])
    second_slopes = central_differences(label_loss, [a, c])
    discrepancy_slopes = central_differences(discrepancy, [a, b, c])
    return [
        first_slopes[0] + second_slopes[0] + STRENGTH * discrepancy_slopes[0],
        first_slopes[1] - discrepancy_slopes[1],
        second_slopes[1] - discrepancy_slopes[2],
    ]


@pytest.mark.parametrize("mode", MODES)
def test_mcd_loss_and_gradients_match_the_formula(mode):
    model = linear_mcd()
    a, b, c = read_weights(model)
    losses = {"label/loss": label_loss(a, b), "second_label/loss": label_loss(a, c)}
    losses["discrepancy/loss"] = -discrepancy(a, b, c)
    logs = check_step(model, mode, losses, compute_gradients([a, b, c]))
    assert logs["strength"] == pytest.approx(STRENGTH)


def test_both_heads_use_sample_weights_and_labeled_target():
    model = linear_mcd()
    a, b, c = read_weights(model)
    inputs, labels = np.concatenate([SOURCE, TARGET]), np.concatenate([LABELS, LABELS])
    weights = np.linspace(0.1, 2.0, 10)
    logs, _ = step(model, "graph", {**PAIR, "target_labeled": TARGET}, labels, weights)
    for name, head in (("label/loss", b), ("second_label/loss", c)):
        losses = -np.log(softmax(inputs @ a @ head)[np.arange(10), labels])
        assert logs[name] == pytest.approx(np.mean(weights * losses), rel=1e-5)


@pytest.mark.parametrize(
    ("method", "name"), [(MCD, "second_head"), (MDD, "adversarial_head"), (FDAL, "critic")]
)
def test_second_head_of_seeded_head_differs(method, name):
    dense = keras.layers.Dense(3, kernel_initializer=keras.initializers.GlorotUniform(seed=1))
    head = keras.Sequential([keras.Input((4,)), dense])
    second = getattr(method(linear(3, 4, "backbone"), label_head=head), name)
    assert np.abs(second.get_weights()[0] - dense.get_weights()[0]).max() > 0.01
