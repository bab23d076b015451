"""The losses and gradients of `Invariant`, against NumPy on linear networks."""

import keras
import numpy as np
import pytest
from support.closed_forms import central_differences, softmax
from support.networks import linear, linear_model, read_weights, two_heads
from support.training_step import MODES, check_step, step

from dann.adaptation import Invariant

RNG = np.random.default_rng(4)
X = RNG.normal(size=(7, 3)).astype("float32")
Y = {
    "label": np.array([0, 1, 2, 1, 0, 2, 1]),
    "site": np.array([0, 0, 0, 1, 0, 0, 1]),
    "age": np.array([30.0, 41, 52, 33, 74, 25, 66], "float32"),
}
MASKED = {
    "label": np.array([0, -1, 2, 1, 0, -1, 1]),
    "site": np.array([0, 0, -1, 1, -1, 0, 1]),
    "age": np.array([30.0, np.nan, 52, 33, np.nan, 25, 66], "float32"),
}
SIZES = np.array([0.5, 1, -2, np.nan, 3, 0.1, np.nan], "float32")
NUMBERS = {"label": SIZES, "site": MASKED["site"]}
TWO_LABELS = {"kind": MASKED["label"], "size": SIZES, "site": MASKED["site"]}
WEIGHTS = {name: RNG.uniform(0, 2, 7).astype("float32") for name in (*Y, *TWO_LABELS)}
LOSSES = {"kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "size": "mse"}
TWO_LOSSES = {"loss": LOSSES, "loss_weights": {"kind": 1.0, "size": 0.3}}
SITE, AGE = {"site": 2}, {"age": "number"}
BOTH = SITE | AGE


# Nuisances, settings, labels, whether examples have weights, and options of `compile`.
CASES = {
    "classes": (SITE, {}, Y, False, {}),
    "number": (AGE, {}, Y, False, {}),
    "strength per nuisance": (BOTH, {"strength": {"site": 0.4, "age": 1.5}}, Y, False, {}),
    "missing": (BOTH, {}, MASKED, False, {}),
    "weighted": (BOTH, {}, MASKED, True, {}),
    "condition on label": (BOTH, {"condition_on_label": True}, MASKED, False, {}),
    "balanced": (BOTH, {"balanced": "site"}, Y, False, {}),
    "all": (BOTH, {"balanced": ["site"], "condition_on_label": True}, MASKED, True, {}),
    "regression": (SITE, {"label_head": linear(4, 1)}, NUMBERS, True, {"loss": "mse"}),
    "two labels": (SITE, {"label_head": two_heads()}, TWO_LABELS, True, TWO_LOSSES),
}


def build_small_model(nuisances, strength=0.7, **kwargs):
    """Returns f = x A, c = f B, h_n = f W_n, without biases."""
    length = 15 if kwargs.get("condition_on_label") else 4
    heads = {name: linear(length, 2 if name == "site" else 1) for name in nuisances}
    settings = {"nuisances": nuisances, "heads": heads, "strength": strength, **kwargs}
    return linear_model(Invariant, **settings)


def mean_loss(outputs, values, weights):
    """Returns the mean over known values: cross-entropy of classes, squared error of numbers."""
    if values.dtype.kind == "f":
        return np.nanmean(weights * (outputs[:, 0] - values) ** 2)
    rows = np.flatnonzero(values >= 0)
    chances = softmax(outputs[rows])[np.arange(len(rows)), values[rows]]
    return -np.mean(weights[rows] * np.log(chances))


def compute_expected(model, y, weights, loss_weights):
    """Returns the terms and the gradients; every loss is a mean over its complete rows."""
    labels = [name for name in y if name not in BOTH]
    a, *heads = read_weights(model)
    label_heads, heads = heads[: len(labels)], heads[len(labels) :]

    def label_loss(a, *heads):
        losses = [
            loss_weights.get(name, 1.0) * mean_loss(X @ a @ b, y[name], weights[name])
            for name, b in zip(labels, heads, strict=True)
        ]
        return sum(losses)

    def head_loss(name):
        values, value_weights = y[name], weights[name].astype(float)
        if model.condition_on_label:
            values = np.where(y["label"] >= 0, values, -1 if name == "site" else np.nan)
        if name == "age":
            values = (values - np.nanmean(values)) / np.nanstd(values)
        if name in model.balanced:
            shares = np.bincount(values[values >= 0]) / np.sum(values >= 0)
            value_weights = value_weights / (2 * shares[values])

        def loss(a, w):
            features = X @ a
            if model.condition_on_label:
                joined = np.column_stack([features, np.ones(7)])
                features = joined[:, :, None] * np.eye(3)[y["label"]][:, None]
            return mean_loss(features.reshape(7, -1) @ w, values, value_weights)

        return loss

    slope_a, *slopes = central_differences(label_loss, [a, *label_heads])
    terms = {"label/loss": label_loss(a, *label_heads)}
    for name, w in zip(model.nuisances, heads, strict=True):
        loss = head_loss(name)
        terms[f"{name}/loss"] = loss(a, w)
        nuisance_slope, head_slope = central_differences(loss, [a, w])
        reversal = model.reversals[name] if model.reversals else model.reversal
        slope_a = slope_a - float(reversal.strength) * nuisance_slope
        slopes.append(head_slope)
    return terms, [slope_a, *slopes]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("mode", MODES)
def test_losses_and_gradients_match_the_formula(case, mode):
    nuisances, settings, y, has_weights, options = CASES[case]
    model = build_small_model(nuisances, **settings)
    weights = {name: WEIGHTS[name] if has_weights else np.ones(7) for name in y}
    expected = compute_expected(model, y, weights, options.get("loss_weights", {}))
    sample_weight = weights if has_weights else None
    check_step(model, mode, *expected, x=X, y=y, sample_weight=sample_weight, **options)


def test_accuracy_and_chance_use_known_values():
    for balanced, chance in (((), 3 / 5), ("site", 1 / 2)):
        model = build_small_model(SITE, balanced=balanced)
        a, _, w = read_weights(model)
        rows_with_value = MASKED["site"] >= 0
        site = MASKED["site"][rows_with_value]
        is_correct = (X @ a @ w)[rows_with_value].argmax(axis=1) == site
        logs, _ = step(model, "graph", X, MASKED)
        by_value = np.mean([is_correct[site == k].mean() for k in (0, 1)])
        expected = by_value if balanced else is_correct.mean()
        assert logs["site/accuracy"] == pytest.approx(expected)
        assert logs["site/chance"] == pytest.approx(chance)


def test_statistics_cover_all_batches():
    model = build_small_model(SITE | AGE)
    model.compile("sgd")
    model.fit(X, MASKED, batch_size=3, epochs=2, verbose=0)
    ages = MASKED["age"][~np.isnan(MASKED["age"])]
    site, age = (keras.ops.convert_to_numpy(n.statistics) for n in model.nuisance_terms)
    count, mean, squares = age
    assert (count, mean) == (10, pytest.approx(ages.mean()))
    assert squares / count == pytest.approx(ages.var(), rel=1e-5)
    np.testing.assert_array_equal(site, [6, 4])


def test_missing_labels_have_no_weight():
    model = build_small_model(SITE)
    model.compile(keras.optimizers.SGD(0.0), metrics=["accuracy"])
    rows_with_value = MASKED["label"] >= 0
    logs = model.fit(X, MASKED, batch_size=7, verbose=0).history
    complete_result = model.evaluate(
        X[rows_with_value], MASKED["label"][rows_with_value], verbose=0, return_dict=True
    )
    assert logs["accuracy"][0] == pytest.approx(complete_result["accuracy"])
    assert logs["label/loss"][0] == pytest.approx(complete_result["loss"], rel=1e-5)
    second_result = model.evaluate(X, MASKED, batch_size=7, verbose=0, return_dict=True)
    assert second_result == pytest.approx(complete_result, rel=1e-5)


@pytest.mark.parametrize("kind", ["CategoricalCrossentropy", "BinaryCrossentropy"])
def test_labels_may_be_vectors(kind):
    y = {**Y, "label": np.eye(3, dtype="float32")[Y["label"]]}
    loss = getattr(keras.losses, kind)(from_logits=True)
    model = build_small_model(SITE, condition_on_label=True)
    logs, _ = step(model, "graph", X, y, loss=loss)
    losses = loss(y["label"], build_small_model(SITE)(X))
    expected = float(np.mean(keras.ops.convert_to_numpy(losses)))
    assert logs["label/loss"] == pytest.approx(expected, rel=1e-5)


def test_nuisance_out_of_range_gives_nan():
    wrong = {**Y, "site": np.array([0, 1, 2, 0, 1, 0, 1])}
    logs, _ = step(build_small_model(SITE), "graph", X, wrong)
    assert np.isnan(logs["site/loss"])


def test_class_weights_equal_label_sample_weights():
    factors = {0: 2.0, 2: 0.5}
    weights = {name: np.ones(7, "float32") for name in ("label", "site")}
    weights["label"] = np.array([factors.get(label, 1.0) for label in MASKED["label"]], "float32")
    y = {name: MASKED[name] for name in weights}
    logs = []
    for options in ({"class_weight": factors}, {"sample_weight": weights}):
        model = build_small_model(SITE)
        model.compile(keras.optimizers.SGD(0.0))
        logs.append(model.fit(X, y, batch_size=7, verbose=0, **options).history)
    assert logs[0] == {name: pytest.approx(value) for name, value in logs[1].items()}
    for data, value, words in (((X, y), {"0": 2.0}, "'0'"), (([(X, y)],), factors, "a dataset")):
        with pytest.raises((TypeError, ValueError), match=words):
            model.fit(*data, class_weight=value)


def test_two_labels_have_metrics_and_files(reloaded):
    model = build_small_model(SITE, label_head=two_heads())
    metrics = {"kind": ["accuracy"], "size": "mae"}
    model.compile(keras.optimizers.SGD(0.0), LOSSES, metrics=metrics)
    logs = model.fit(X, TWO_LABELS, batch_size=7, verbose=0).history
    labels = {name: TWO_LABELS[name] for name in LOSSES}
    result = model.evaluate(X, labels, batch_size=7, verbose=0, return_dict=True)
    outputs = model.predict(X, verbose=0)
    rows = TWO_LABELS["kind"] >= 0
    is_correct = outputs["kind"].argmax(axis=1)[rows] == TWO_LABELS["kind"][rows]
    errors = np.abs(outputs["size"][:, 0] - TWO_LABELS["size"])
    for values in (result, {name: history[0] for name, history in logs.items()}):
        assert values["kind_accuracy"] == pytest.approx(is_correct.mean())
        assert values["size_mae"] == pytest.approx(np.nanmean(errors), rel=1e-5)
    assert result["loss"] == pytest.approx(logs["label/loss"][0], rel=1e-5)
    reloaded_model = reloaded(model)
    for name, output in reloaded_model.predict(X, verbose=0).items():
        np.testing.assert_array_equal(output, outputs[name])
    reloaded_model.fit(X, TWO_LABELS, verbose=0)
