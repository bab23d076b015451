"""Continuous labels: DANN and MDD on a linear network, against closed forms and on a toy."""

import keras
import numpy as np
import pytest
from support import lacking
from support.networks import linear, weights_of, with_random_weights
from support.one_step import MODES, check_step, step
from support.pair import PAIR, SOURCE, STRENGTH, TARGET
from support.shifted_classes import SEEDS, SIZE, linear_backbone, trained_on_each_seed

from dann.adaptation import DANN, MDAN, MDD, WDGRL, SourceOnly
from dann.networks import domain_head

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


@pytest.mark.tensorflow
def test_a_regression_model_comes_back_from_a_file_and_evaluates(reloaded):
    model = linear_regression(MDD, disparity="squared_error")
    model.compile("sgd", loss="mse", metrics=["mae"])
    again = reloaded(model)
    assert again.disparity == "squared_error"
    a, b, _ = weights_of(model)
    logs = again.evaluate(TARGET, LABELS, verbose=0, return_dict=True)
    assert logs["loss"] == pytest.approx(np.mean(((TARGET @ a @ b)[:, 0] - LABELS) ** 2), rel=1e-5)
    assert set(logs) == {"loss", "mae"}


def shifted_line(seed):
    """A label `z` in [-1, 1], seen at (z, 0) in the source and at (z + 1.5, 2) in the target.

    The noise has deviation .3. The direction `x1 - .75 x2` is distributed alike in both domains.
    """
    rng = np.random.default_rng(seed)
    labels = rng.uniform(-1, 1, size=(2, SIZE))
    shifts = np.array([[0.0, 0.0], [1.5, 2.0]])
    points = np.stack([labels, np.zeros_like(labels)], axis=-1) + shifts[:, None]
    inputs = points + rng.normal(scale=0.3, size=points.shape)
    return inputs[0], labels[0], inputs[1], labels[1]


def least_squares_errors():
    """Mean absolute errors on the target of the best linear fit to the source."""
    errors = []
    for source, labels, target, target_labels in map(shifted_line, SEEDS):
        columns = [np.column_stack([x, np.ones(SIZE)]) for x in (source, target)]
        fit = np.linalg.lstsq(columns[0], labels)[0]
        errors.append(np.mean(np.abs(columns[1] @ fit - target_labels)))
    return np.array(errors)


METHODS = {
    "dann": lambda **parts: DANN(**parts, domain_head=domain_head(2, hidden_units=(16,))),
    "mdd": lambda **parts: MDD(
        **parts,
        adversarial_head=domain_head(2, hidden_units=(16,), name="adversarial_head"),
        disparity="absolute_error",
        gamma=1.0,
        strength=1.0,
    ),
}


@lacking.several_steps
@pytest.mark.parametrize("name", METHODS)
def test_it_lowers_the_error_on_the_target_below_the_best_source_fit(name):
    head = domain_head(2, hidden_units=(), name="label_head")
    model = METHODS[name](backbone=linear_backbone(), label_head=head)
    training = trained_on_each_seed(model, problem=shifted_line, loss="mse", metrics=["mae"])
    errors = [
        model.evaluate(target, labels, batch_size=SIZE, verbose=0)[1] for target, labels in training
    ]
    unadapted = least_squares_errors()
    assert (unadapted > 1).all()
    assert np.mean(errors) < 0.5 * unadapted.mean(), errors
