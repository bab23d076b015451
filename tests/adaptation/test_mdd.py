"""MDD's loss and gradients, against NumPy on a linear network."""

import functools

import numpy as np
import pytest
from support.closed_forms import softmax
from support.formulas import linear_model
from support.networks import linear, read_weights
from support.pair import SOURCE, TARGET
from support.training_step import MODES, check_adversarial_step, step

from dann.adaptation import MDD


def linear_mdd(**kwargs):
    """a = f W."""
    return linear_model(MDD, adversarial_head=linear(4, 3, "adversarial_head"), **kwargs)


def disparity_loss(a, w, classes, gamma):
    """Returns gamma times the agreement on the source plus the disagreement on the target."""
    rows = np.arange(5)
    agree = -np.log(softmax(SOURCE @ a @ w)[rows, classes[0]])
    disagree = -np.log(1 - softmax(TARGET @ a @ w)[rows, classes[1]] + 1e-6)
    return gamma * agree.mean() + disagree.mean()


@pytest.mark.parametrize("gamma", [4.0, 1.5])
@pytest.mark.parametrize("mode", MODES)
def test_mdd_loss_and_gradients_match_the_formula(mode, gamma):
    model = linear_mdd(gamma=gamma)
    a, b, _ = read_weights(model)
    classes = [np.argmax(inputs @ a @ b, axis=1) for inputs in (SOURCE, TARGET)]
    loss = functools.partial(disparity_loss, classes=classes, gamma=gamma)
    check_adversarial_step(model, mode, "disparity/loss", loss)


def test_certain_adversarial_head_has_finite_loss():
    model = linear_mdd()
    model.adversarial_head.set_weights([1e3 * model.label_head.get_weights()[0]])
    logs, slopes = step(model, "graph")
    assert logs["disparity/loss"] == pytest.approx(-np.log(1e-6), rel=1e-3)
    assert all(np.isfinite(slope).all() for slope in slopes)
