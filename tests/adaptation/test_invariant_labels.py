"""`Invariant` with numbers as labels and with two label outputs, against NumPy."""

import keras
import numpy as np
import pytest
from support.closed_forms import central_differences, softmax
from support.networks import linear, read_weights, with_random_weights
from support.training_step import MODES, check_step

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
    """Returns c_kind = f B, c_size = f C."""
    inputs = keras.Input((4,))
    outputs = {name: linear(4, k)(inputs) for name, k in (("kind", 3), ("size", 1))}
    heads = {"label_head": keras.Model(inputs, outputs), "heads": {"site": linear(4, 2)}}
    return with_random_weights(
        Invariant(linear(3, 4), nuisances=SITE, strength=0.7, **heads, **kwargs)
    )


def class_loss(name, a, w, weight=WEIGHTS["site"]):
    """Returns the mean cross-entropy over known values."""
    rows = np.flatnonzero(Y[name] >= 0)
    chances = softmax(X @ a @ w)[rows, Y[name][rows]]
    return -np.mean(weight[rows] * np.log(chances))


def number_loss(a, c, weight=WEIGHTS["size"]):
    """Returns the mean squared error over known values."""
    return np.nanmean(weight * ((X @ a @ c)[:, 0] - Y["size"]) ** 2)


def check_label_loss(model, mode, label_loss, **options):
    """Compares a step with a label loss, a function of the weights of backbone and label head."""
    a, *heads, w = read_weights(model)
    slope_a, *slopes = central_differences(label_loss, [a, *heads])
    nuisance_slope, head_slope = central_differences(lambda a, w: class_loss("site", a, w), [a, w])
    terms = {"label/loss": label_loss(a, *heads), "site/loss": class_loss("site", a, w)}
    check_step(
        model, mode, terms, [slope_a - 0.7 * nuisance_slope, *slopes, head_slope], x=X, **options
    )


@pytest.mark.parametrize("mode", MODES)
def test_regression_matches_the_formula(mode):
    parts = {"label_head": linear(4, 1), "heads": {"site": linear(4, 2)}}
    model = with_random_weights(Invariant(linear(3, 4), nuisances=SITE, strength=0.7, **parts))
    y = {"label": Y["size"], "site": Y["site"]}
    weights = {"label": WEIGHTS["size"], "site": WEIGHTS["site"]}
    check_label_loss(model, mode, number_loss, y=y, sample_weight=weights, loss="mse")


@pytest.mark.parametrize("mode", MODES)
def test_two_labels_match_the_formula(mode):
    def label_loss(a, b, c):
        return class_loss("kind", a, b, WEIGHTS["kind"]) + 0.3 * number_loss(a, c)

    compile_options = {"loss": LOSSES, "loss_weights": {"kind": 1.0, "size": 0.3}}
    check_label_loss(
        with_two_labels(), mode, label_loss, y=Y, sample_weight=WEIGHTS, **compile_options
    )


def test_two_labels_have_metrics_and_files(reloaded):
    model = with_two_labels()
    metrics = {"kind": ["accuracy"], "size": "mae"}
    model.compile(keras.optimizers.SGD(0.0), LOSSES, metrics=metrics)
    logs = model.fit(X, Y, batch_size=7, verbose=0).history
    labels = {name: Y[name] for name in LOSSES}
    result = model.evaluate(X, labels, batch_size=7, verbose=0, return_dict=True)
    outputs = model.predict(X, verbose=0)
    rows = Y["kind"] >= 0
    is_correct = outputs["kind"].argmax(axis=1)[rows] == Y["kind"][rows]
    errors = np.abs(outputs["size"][:, 0] - Y["size"])
    for values in (result, {name: history[0] for name, history in logs.items()}):
        assert values["kind_accuracy"] == pytest.approx(is_correct.mean())
        assert values["size_mae"] == pytest.approx(np.nanmean(errors), rel=1e-5)
    assert result["loss"] == pytest.approx(logs["label/loss"][0], rel=1e-5)
    reloaded_model = reloaded(model)
    for name, output in reloaded_model.predict(X, verbose=0).items():
        np.testing.assert_array_equal(output, outputs[name])
    reloaded_model.fit(X, Y, verbose=0)
