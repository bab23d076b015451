"""Continuous labels: losses and gradients against NumPy on a linear network."""

import numpy as np
import pytest
from support.arrays import ALL_INPUTS, SOURCE, STRENGTH
from support.closed_forms import binary_losses, central_differences
from support.networks import linear, read_weights, with_random_weights
from support.training_step import MODES, check_adversarial_step, step

from dann.adaptation import DANN, MDAN, MDD, WDGRL, SourceOnly

LABELS = np.array([0.5, -1.25, 2.0, 0.0, 3.5])
REGRESSION = {"y": LABELS, "loss": "mse", "metrics": ["mae"]}
DOMAIN = np.repeat([[0.0], [1.0]], 5, axis=0)


def linear_regression(method, outputs=1, **kwargs):
    """Returns f = x A, c = f b and the method's head f w, without biases."""
    label_head = linear(4, outputs, "label_head")
    return with_random_weights(method(linear(3, 4, "backbone"), label_head=label_head, **kwargs))


def errors(a, b):
    return SOURCE @ a @ b - LABELS[:, None]


def squared_loss(a, b):
    return np.mean(errors(a, b) ** 2)


def check_method(model, mode, name, loss):
    error = np.mean(np.abs(errors(*read_weights(model)[:2])))
    logs = check_adversarial_step(model, mode, name, loss, squared_loss, atol=2e-6, **REGRESSION)
    assert logs["mae"] == pytest.approx(error, rel=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_dann_matches_the_formula(mode):
    model = linear_regression(DANN, domain_head=linear(4, 1, "domain_head"), strength=STRENGTH)
    check_method(
        model, mode, "domain/loss", lambda a, w: np.mean(binary_losses(ALL_INPUTS @ a @ w, DOMAIN))
    )


@pytest.mark.parametrize("disparity", ["absolute_error", "squared_error"])
@pytest.mark.parametrize("mode", MODES)
def test_mdd_matches_the_formula(mode, disparity):
    head = linear(4, 1, "adversarial_head")
    settings = {"disparity": disparity, "gamma": 1.5, "strength": STRENGTH}
    model = linear_regression(MDD, adversarial_head=head, **settings)
    a, b, _ = read_weights(model)
    predictions = ALL_INPUTS @ a @ b  # constant in the disparity
    error_function = np.abs if disparity == "absolute_error" else np.square

    def loss(a, w):
        error = error_function(ALL_INPUTS @ a @ w - predictions)
        return 1.5 * error[:5].mean() - error[5:].mean()

    check_method(model, mode, "disparity/loss", loss)


@pytest.mark.parametrize("method", [SourceOnly, MDAN, WDGRL])
def test_other_methods_support_regression(method):
    adversary = {"domain_head": linear(4, 1, "domain_head"), "strength": STRENGTH}
    settings = {MDAN: adversary, WDGRL: {**adversary, "critic_steps": 1}}.get(method, {})
    model = linear_regression(method, **settings)
    a, b, *_ = read_weights(model)
    slope_a, slope_b = central_differences(squared_loss, [a, b])
    logs, slopes = step(model, "graph", **REGRESSION)
    assert logs["label/loss"] == pytest.approx(squared_loss(a, b), rel=1e-5)
    np.testing.assert_allclose(slopes[1], slope_b, rtol=1e-4, atol=2e-6)
    assert (np.abs(slopes[0] - slope_a).max() > 1e-3) == bool(settings)
