"""The losses and gradients of `Invariant`, against NumPy on linear networks."""

import keras
import numpy as np
import pytest
from support.arrays import assert_all_close, assert_all_equal
from support.closed_forms import central_differences, softmax
from support.formulas import linear_model
from support.networks import linear, read_weights, with_random_weights
from support.training_step import MODES, check_step, step

import dann
from dann.adaptation import Invariant
from dann.schedules import GaninSchedule

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
WEIGHTS = {name: RNG.uniform(0, 2, 7).astype("float32") for name in Y}
SITE, AGE = {"site": 2}, {"age": "number"}
CASES = {
    "classes": (SITE, {}, Y, None),
    "number": (AGE, {}, Y, None),
    "strength per nuisance": (SITE | AGE, {"strength": {"site": 0.4, "age": 1.5}}, Y, None),
    "missing": (SITE | AGE, {}, MASKED, None),
    "weighted": (SITE | AGE, {}, MASKED, WEIGHTS),
    "condition on label": (SITE | AGE, {"condition_on_label": True}, MASKED, None),
    "balanced": (SITE | AGE, {"balanced": "site"}, Y, None),
    "all": (SITE | AGE, {"balanced": ["site"], "condition_on_label": True}, MASKED, WEIGHTS),
}


def build_small_model(nuisances, strength=0.7, **kwargs):
    """Returns f = x A, c = f B, h_n = f W_n, without biases."""
    length = 15 if kwargs.get("condition_on_label") else 4
    heads = {name: linear(length, 2 if name == "site" else 1) for name in nuisances}
    settings = {"nuisances": nuisances, "heads": heads, "strength": strength, **kwargs}
    return linear_model(Invariant, **settings)


def class_loss(logits, values, weight):
    chances = softmax(logits)[np.arange(len(values)), values.astype(int)]
    return -np.mean(weight * np.log(chances))


def compute_expected(model, weights, y, sample_weights):
    """Returns the terms and the gradients; every loss is a mean over its complete rows."""
    has_label = y["label"] >= 0
    sample_weights = sample_weights or dict.fromkeys(y, np.ones(7))

    def label_loss(a, b):
        logits, weight = (X @ a @ b)[has_label], sample_weights["label"][has_label]
        return class_loss(logits, y["label"][has_label], weight)

    def head_loss(name):
        rows = y[name] >= 0  # NaN is not
        rows = rows & has_label if model.condition_on_label else rows
        values, weight = y[name][rows].astype(float), sample_weights[name][rows].astype(float)
        if name in model.balanced:
            weight = weight / [2 * np.mean(values == value) for value in values]

        def loss(a, w):
            features = X @ a
            if model.condition_on_label:
                joined = np.column_stack([features, np.ones(7)])
                features = joined[:, :, None] * np.eye(3)[y["label"]][:, None]
            outputs = features.reshape(7, -1)[rows] @ w
            if name == "site":
                return class_loss(outputs, values, weight)
            scaled = (values - values.mean()) / values.std()
            return np.mean(weight * (outputs[:, 0] - scaled) ** 2)

        return loss

    a, b, *heads = weights
    slope_a, slope_b = central_differences(label_loss, [a, b])
    terms, slopes = {"label/loss": label_loss(a, b)}, []
    for name, w in zip(model.nuisances, heads, strict=True):
        loss = head_loss(name)
        terms[f"{name}/loss"] = loss(a, w)
        nuisance_slope, head_slope = central_differences(loss, [a, w])
        strength = model.reversals[name] if model.reversals else model.reversal
        slope_a = slope_a - float(strength.strength) * nuisance_slope
        slopes.append(head_slope)
    return terms, [slope_a, slope_b, *slopes]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("mode", MODES)
def test_losses_and_gradients_match_the_formula(case, mode):
    nuisances, settings, y, weights = CASES[case]
    model = build_small_model(nuisances, **settings)
    expected = compute_expected(model, read_weights(model), y, weights)
    check_step(model, mode, *expected, x=X, y=y, sample_weight=weights)


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


def test_reloaded_model_trains_as_before(reloaded):
    settings = {"strength": {"site": 0.4, "age": GaninSchedule(20)}, "balanced": "site"}
    settings |= {"condition_on_label": True, "regularizers": [dann.MCC()]}
    backbone = dann.networks.mlp_backbone((3,), hidden_units=(6,))
    model = Invariant(backbone, 3, nuisances=SITE | AGE, **settings)
    model.compile(keras.optimizers.Adam(0.01, epsilon=1e-3), metrics=["accuracy"])
    model.fit(X, MASKED, batch_size=4, shuffle=False, verbose=0)
    reloaded_model = reloaded(model)
    assert_all_equal(reloaded_model.get_weights(), model.get_weights())
    for network in (model, reloaded_model):
        network.fit(X, MASKED, batch_size=4, shuffle=False, verbose=0)
    assert_all_close(model.get_weights(), reloaded_model.get_weights(), rtol=1e-5, atol=1e-7)
    assert reloaded_model.reversals["age"].schedule == GaninSchedule(20)


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


TWO_LABELS = {
    "kind": np.array([0, -1, 2, 1, 0, -1, 1]),
    "size": np.array([0.5, 1, -2, np.nan, 3, 0.1, np.nan], "float32"),
    "site": np.array([0, 0, -1, 1, -1, 0, 1]),
}
TWO_LABEL_WEIGHTS = {name: RNG.uniform(0, 2, 7).astype("float32") for name in TWO_LABELS}
LOSSES = {"kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "size": "mse"}


def with_two_labels(**kwargs):
    """Returns c_kind = f B, c_size = f C."""
    inputs = keras.Input((4,))
    outputs = {name: linear(4, k)(inputs) for name, k in (("kind", 3), ("size", 1))}
    heads = {"label_head": keras.Model(inputs, outputs), "heads": {"site": linear(4, 2)}}
    return with_random_weights(
        Invariant(linear(3, 4), nuisances=SITE, strength=0.7, **heads, **kwargs)
    )


def masked_class_loss(name, a, w, weight=TWO_LABEL_WEIGHTS["site"]):
    """Returns the mean cross-entropy over known values."""
    rows = np.flatnonzero(TWO_LABELS[name] >= 0)
    chances = softmax(X @ a @ w)[rows, TWO_LABELS[name][rows]]
    return -np.mean(weight[rows] * np.log(chances))


def number_loss(a, c, weight=TWO_LABEL_WEIGHTS["size"]):
    """Returns the mean squared error over known values."""
    return np.nanmean(weight * ((X @ a @ c)[:, 0] - TWO_LABELS["size"]) ** 2)


def check_label_loss(model, mode, label_loss, **options):
    """Compares a step with a label loss, a function of the weights of backbone and label head."""
    a, *heads, w = read_weights(model)
    slope_a, *slopes = central_differences(label_loss, [a, *heads])
    nuisance_slope, head_slope = central_differences(
        lambda a, w: masked_class_loss("site", a, w), [a, w]
    )
    terms = {"label/loss": label_loss(a, *heads), "site/loss": masked_class_loss("site", a, w)}
    check_step(
        model, mode, terms, [slope_a - 0.7 * nuisance_slope, *slopes, head_slope], x=X, **options
    )


@pytest.mark.parametrize("mode", MODES)
def test_regression_matches_the_formula(mode):
    parts = {"label_head": linear(4, 1), "heads": {"site": linear(4, 2)}}
    model = with_random_weights(Invariant(linear(3, 4), nuisances=SITE, strength=0.7, **parts))
    y = {"label": TWO_LABELS["size"], "site": TWO_LABELS["site"]}
    weights = {"label": TWO_LABEL_WEIGHTS["size"], "site": TWO_LABEL_WEIGHTS["site"]}
    check_label_loss(model, mode, number_loss, y=y, sample_weight=weights, loss="mse")


@pytest.mark.parametrize("mode", MODES)
def test_two_labels_match_the_formula(mode):
    def label_loss(a, b, c):
        return masked_class_loss("kind", a, b, TWO_LABEL_WEIGHTS["kind"]) + 0.3 * number_loss(a, c)

    compile_options = {"loss": LOSSES, "loss_weights": {"kind": 1.0, "size": 0.3}}
    check_label_loss(
        with_two_labels(),
        mode,
        label_loss,
        y=TWO_LABELS,
        sample_weight=TWO_LABEL_WEIGHTS,
        **compile_options,
    )


def test_two_labels_have_metrics_and_files(reloaded):
    model = with_two_labels()
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
