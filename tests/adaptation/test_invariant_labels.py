"""A regression, and several label outputs, of `Invariant` on linear networks."""

import keras
import numpy as np
import pytest
from support.closed_forms import central_differences, softmax
from support.networks import linear, read_weights, with_random_weights
from support.training_step import MODES, check_step

import dann
from dann.adaptation import Invariant

RNG = np.random.default_rng(4)
X = RNG.normal(size=(7, 3)).astype("float32")
SITE = {"site": 2}
Y = {
    "kind": np.array([0, -1, 2, 1, 0, -1, 1]),
    "size": np.array([0.5, 1, -2, np.nan, 3, 0.1, np.nan], "float32"),
    "site": np.array([0, 0, -1, 1, -1, 0, 1]),
}
WEIGHTS = {name: RNG.uniform(0, 2, 7).astype("float32") for name in Y}
LOSSES = {"kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "size": "mse"}


def with_two_labels(**kwargs):
    """c_kind = f B, c_size = f C."""
    inputs = keras.Input((4,))
    outputs = {name: linear(4, k)(inputs) for name, k in (("kind", 3), ("size", 1))}
    heads = {"label_head": keras.Model(inputs, outputs), "heads": {"site": linear(4, 2)}}
    return with_random_weights(
        Invariant(linear(3, 4), nuisances=SITE, strength=0.7, **heads, **kwargs)
    )


def of_classes(name, a, w, weight=WEIGHTS["site"]):
    """The mean cross-entropy of what is known."""
    known = np.flatnonzero(Y[name] >= 0)
    own = softmax(X @ a @ w)[known, Y[name][known]]
    return -np.mean(weight[known] * np.log(own))


def of_numbers(a, c, weight=WEIGHTS["size"]):
    """The mean squared error of what is known."""
    return np.nanmean(weight * ((X @ a @ c)[:, 0] - Y["size"]) ** 2)


def check_label_loss(model, mode, label_loss, **given):
    """Compares a step with a label loss of the backbone's weights and those of the label head."""
    a, *heads, w = read_weights(model)
    slope_a, *slopes = central_differences(label_loss, [a, *heads])
    of_a, of_w = central_differences(lambda *both: of_classes("site", *both), [a, w])
    terms = {"label/loss": label_loss(a, *heads), "site/loss": of_classes("site", a, w)}
    check_step(model, mode, terms, [slope_a - 0.7 * of_a, *slopes, of_w], x=X, **given)


@pytest.mark.parametrize("mode", MODES)
def test_a_regression_matches_the_formula(mode):
    parts = {"label_head": linear(4, 1), "heads": {"site": linear(4, 2)}}
    model = with_random_weights(Invariant(linear(3, 4), nuisances=SITE, strength=0.7, **parts))
    y = {"label": Y["size"], "site": Y["site"]}
    weights = {"label": WEIGHTS["size"], "site": WEIGHTS["site"]}
    check_label_loss(model, mode, of_numbers, y=y, sample_weight=weights, loss="mse")


@pytest.mark.parametrize("mode", MODES)
def test_several_labels_match_the_formula(mode):
    def label_loss(a, b, c):
        return of_classes("kind", a, b, WEIGHTS["kind"]) + 0.3 * of_numbers(a, c)

    compiled = {"loss": LOSSES, "loss_weights": {"kind": 1.0, "size": 0.3}}
    check_label_loss(with_two_labels(), mode, label_loss, y=Y, sample_weight=WEIGHTS, **compiled)


def test_several_labels_have_metrics_and_files(reloaded):
    model = with_two_labels()
    metrics = {"kind": ["accuracy"], "size": "mae"}
    model.compile(keras.optimizers.SGD(0.0), LOSSES, metrics=metrics)
    logs = model.fit(X, Y, batch_size=7, verbose=0).history
    labels = {name: Y[name] for name in LOSSES}
    found = model.evaluate(X, labels, batch_size=7, verbose=0, return_dict=True)
    outputs = model.predict(X, verbose=0)
    known = Y["kind"] >= 0
    right = outputs["kind"].argmax(axis=1)[known] == Y["kind"][known]
    errors = np.abs(outputs["size"][:, 0] - Y["size"])
    for told in (found, {name: values[0] for name, values in logs.items()}):
        assert told["kind_accuracy"] == pytest.approx(right.mean())
        assert told["size_mae"] == pytest.approx(np.nanmean(errors), rel=1e-5)
    assert found["loss"] == pytest.approx(logs["label/loss"][0], rel=1e-5)
    again = reloaded(model)
    for name, one in again.predict(X, verbose=0).items():
        np.testing.assert_array_equal(one, outputs[name])
    again.fit(X, Y, verbose=0)


@pytest.mark.parametrize(
    ("arguments", "compiled"),
    [
        ({"condition_on_label": True}, {}),
        ({"regularizers": dann.MCC()}, {}),
        ({}, {}),
        ({}, {"loss": "mse"}),
        ({}, {"loss": {"kind": LOSSES["kind"], "sice": "mse"}}),
        ({}, {"loss": {"kind": "sparse_categorical_crossentropy", "size": "mse"}}),
        ({}, {"loss": LOSSES, "metrics": {"sice": ["mae"]}}),
    ],
)
def test_what_does_not_fit_several_labels_is_refused(arguments, compiled):
    with pytest.raises(ValueError):  # noqa: PT011, PT012
        model = with_two_labels(**arguments)
        model.compile("sgd", **compiled)
        model.fit(X, Y, verbose=0)
