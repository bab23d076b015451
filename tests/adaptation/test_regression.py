"""Continuous labels: DANN and MDD on a linear network, against closed forms and on a toy."""

import keras
import numpy as np
import pytest
from support.networks import linear, weights_of, with_random_weights
from support.one_step import MODES, check_step, step
from support.pair import PAIR, SOURCE, STRENGTH, TARGET

from dann.adaptation import DANN, MDAN, MDD, WDGRL, SourceOnly

LABELS = np.array([0.5, -1.25, 2.0, 0.0, 3.5])
REGRESSION = {"y": LABELS, "loss": "mse", "metrics": ["mae"]}
INPUTS = np.concatenate([SOURCE, TARGET])
DOMAIN = np.repeat([[0.0], [1.0]], 5, axis=0)


def linear_regression(method, **kwargs):
    """f = x A, c = f b, and the method's head f w, without biases."""
    parts = {"backbone": linear(3, 4, "backbone"), "label_head": linear(4, 1, "label_head")}
    return with_random_weights(method(**parts, strength=STRENGTH, **kwargs))


def label_part(weights):
    """Loss, absolute error, and the slopes of the loss by the predictions, `2 (c - y) / n`."""
    a, b, _ = weights
    error = SOURCE @ a @ b - LABELS[:, None]
    return np.mean(error**2), np.mean(np.abs(error)), 2 * error / 5


def gradients_of(weights, label_slope, head_slope):
    """Of A, b and w, from the slopes by the predictions and by the outputs of the head."""
    a, b, w = weights
    features = INPUTS @ a
    feature_slope = -STRENGTH * head_slope @ w.T
    feature_slope[:5] += label_slope @ b.T
    return [INPUTS.T @ feature_slope, features[:5].T @ label_slope, features.T @ head_slope]


def check(model, mode, name, head_loss, head_slope):
    weights = weights_of(model)
    label_loss, absolute_error, label_slope = label_part(weights)
    terms = {"label/loss": label_loss, "mae": absolute_error, name: head_loss}
    gradients = gradients_of(weights, label_slope, head_slope)
    check_step(model, mode, terms, gradients, label_loss + head_loss, 2e-6, **REGRESSION)


@pytest.mark.parametrize("mode", MODES)
def test_dann_matches_the_closed_form(mode):
    model = linear_regression(DANN, domain_head=linear(4, 1, "domain_head"))
    a, _, w = weights_of(model)
    sigmoid = 1 / (1 + np.exp(-INPUTS @ a @ w))
    loss = -np.mean(DOMAIN * np.log(sigmoid) + (1 - DOMAIN) * np.log(1 - sigmoid))
    check(model, mode, "domain/loss", loss, (sigmoid - DOMAIN) / 10)


@pytest.mark.parametrize("disparity", ["absolute_error", "squared_error"])
@pytest.mark.parametrize("mode", MODES)
def test_mdd_matches_the_closed_form(mode, disparity):
    head = linear(4, 1, "adversarial_head")
    model = linear_regression(MDD, adversarial_head=head, disparity=disparity, gamma=1.5)
    a, b, w = weights_of(model)
    difference = INPUTS @ a @ (w - b)
    absolute = disparity == "absolute_error"
    error = np.abs(difference) if absolute else difference**2
    slope = np.sign(difference) if absolute else 2 * difference
    sign = np.where(DOMAIN, -1.0, 1.5) / 5
    check(model, mode, "disparity/loss", np.sum(sign * error), sign * slope)


@pytest.mark.parametrize("method", [SourceOnly, MDAN, WDGRL])
def test_other_methods_without_classes_learn_numbers_too(method):
    adversary = {"domain_head": linear(4, 1, "domain_head"), "strength": STRENGTH}
    settings = {MDAN: adversary, WDGRL: {**adversary, "critic_steps": 1}}.get(method, {})
    parts = {"backbone": linear(3, 4, "backbone"), "label_head": linear(4, 1, "label_head")}
    model = with_random_weights(method(**parts, **settings))
    a, b, *_ = weights_of(model)
    label_loss, _, label_slope = label_part([a, b, None])
    logs, slopes = step(model, "graph", **REGRESSION)
    assert logs["label/loss"] == pytest.approx(label_loss, rel=1e-5)
    np.testing.assert_allclose(slopes[1], (SOURCE @ a).T @ label_slope, rtol=1e-4, atol=2e-6)
    of_adversary = slopes[0] - SOURCE.T @ label_slope @ b.T
    assert (np.abs(of_adversary).max() > 1e-3) == bool(settings)


def test_the_disparity_is_the_mean_over_several_outputs():
    model = MDD(
        linear(3, 4, "backbone"), label_head=linear(4, 2, "label_head"), disparity="squared_error"
    )
    a, b, w = weights_of(with_random_weights(model))
    squares = (INPUTS @ a @ (w - b)) ** 2
    model.compile(keras.optimizers.SGD(0.0), loss="mse")
    logs = model.train_on_batch(PAIR, np.stack([LABELS, -LABELS], axis=1), return_dict=True)
    expected = 4 * squares[:5].mean() - squares[5:].mean()
    assert logs["disparity/loss"] == pytest.approx(expected, rel=1e-5)
