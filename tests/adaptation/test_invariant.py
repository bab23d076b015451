"""The losses and gradients of `Invariant`, against NumPy on linear networks."""

import keras
import numpy as np
import pytest
from support.arrays import assert_all_close, assert_all_equal
from support.closed_forms import central_differences, softmax
from support.formulas import linear_model
from support.networks import linear, read_weights
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
    "both": (SITE | AGE, {"strength": 0.3}, Y, None),
    "one strength each": (SITE | AGE, {"strength": {"site": 0.4, "age": 1.5}}, Y, None),
    "missing": (SITE | AGE, {}, MASKED, None),
    "weighted": (SITE | AGE, {}, MASKED, WEIGHTS),
    "given the label": (SITE | AGE, {"condition_on_label": True}, MASKED, None),
    "balanced": (SITE | AGE, {"balanced": "site"}, Y, None),
    "all": (SITE | AGE, {"balanced": ["site"], "condition_on_label": True}, MASKED, WEIGHTS),
}


def small(nuisances, strength=0.7, **kwargs):
    """f = x A, c = f B, h_n = f W_n, without biases."""
    length = 15 if kwargs.get("condition_on_label") else 4
    heads = {name: linear(length, 2 if name == "site" else 1) for name in nuisances}
    settings = {"nuisances": nuisances, "heads": heads, "strength": strength, **kwargs}
    return linear_model(Invariant, **settings)


def by_hand(model, weights, y, given):
    """The terms and the gradients, row by row."""
    rows = [i for i in range(7) if y["label"][i] >= 0]
    given = given or {name: np.ones(7) for name in y}

    def label_loss(a, b):
        chances = softmax(X @ a @ b)
        return -np.mean([given["label"][i] * np.log(chances[i, y["label"][i]]) for i in rows])

    def rows_of(name):
        known = [i for i in range(7) if y[name][i] >= 0]  # NaN is not
        return [i for i in known if i in rows] if model.condition_on_label else known

    def inputs(a):
        f = X @ a
        if not model.condition_on_label:
            return f
        outer = [np.outer([*f[i], 1], np.eye(3)[y["label"][i]]).ravel() for i in range(7)]
        return np.array(outer)

    def head_loss(name):
        known = rows_of(name)
        values = y[name][known].astype("float64")
        weight = given[name][known].astype("float64")

        def of_classes(a, w):
            chances = softmax(inputs(a)[known] @ w)
            rarity = [
                1 / (2 * np.mean(values == v)) if name in model.balanced else 1 for v in values
            ]
            own = chances[np.arange(len(known)), values.astype(int)]
            return -np.mean(weight * rarity * np.log(own))

        def of_numbers(a, w):
            scaled = (values - values.mean()) / values.std()
            return np.mean(weight * ((inputs(a)[known] @ w)[:, 0] - scaled) ** 2)

        return of_classes if name == "site" else of_numbers

    a, b, *heads = weights
    slope_a, slope_b = central_differences(label_loss, [a, b])
    terms, slopes = {"label/loss": label_loss(a, b)}, []
    for name, w in zip(model.nuisances, heads, strict=True):
        loss = head_loss(name)
        terms[f"{name}/loss"] = loss(a, w)
        of_a, of_w = central_differences(loss, [a, w])
        strength = model.reversals[name] if model.reversals else model.reversal
        slope_a = slope_a - float(strength.strength) * of_a
        slopes.append(of_w)
    return terms, [slope_a, slope_b, *slopes]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("mode", MODES)
def test_losses_and_every_gradient_match_the_formula(case, mode):
    nuisances, settings, y, weights = CASES[case]
    model = small(nuisances, **settings)
    expected = by_hand(model, read_weights(model), y, weights)
    check_step(model, mode, *expected, x=X, y=y, sample_weight=weights)


def test_accuracy_and_chance_are_those_of_the_known_values():
    for balanced, chance in (((), 3 / 5), ("site", 1 / 2)):
        model = small(SITE, balanced=balanced)
        a, _, w = read_weights(model)
        known = MASKED["site"] >= 0
        site = MASKED["site"][known]
        right = (X @ a @ w)[known].argmax(axis=1) == site
        logs, _ = step(model, "graph", X, MASKED)
        expected = np.mean([right[site == k].mean() for k in (0, 1)]) if balanced else right.mean()
        assert logs["site/accuracy"] == pytest.approx(expected)
        assert logs["site/chance"] == pytest.approx(chance)


def test_outputs_that_tell_nothing_are_right_for_one_value_alone():
    model = small(SITE)
    model.heads["site"].set_weights([0 * weight for weight in model.heads["site"].get_weights()])
    logs, _ = step(model, "graph", X, MASKED)
    site = MASKED["site"][MASKED["site"] >= 0]
    assert logs["site/accuracy"] == pytest.approx(np.mean(site == 0))


def test_counts_mean_and_deviation_are_those_of_all_batches():
    model = small(SITE | AGE)
    model.compile("sgd")
    model.fit(X, MASKED, batch_size=3, epochs=2, verbose=0)
    ages = MASKED["age"][~np.isnan(MASKED["age"])]
    site, age = (keras.ops.convert_to_numpy(n.statistics) for n in model.nuisance_terms)
    count, mean, squares = age
    assert (count, mean) == (10, pytest.approx(ages.mean()))
    assert squares / count == pytest.approx(ages.var(), rel=1e-5)
    np.testing.assert_array_equal(site, [6, 4])


def test_missing_labels_count_in_no_loss_and_no_metric():
    model = small(SITE)
    model.compile(keras.optimizers.SGD(0.0), metrics=["accuracy"])
    known = MASKED["label"] >= 0
    logs = model.fit(X, MASKED, batch_size=7, verbose=0).history
    found = model.evaluate(X[known], MASKED["label"][known], verbose=0, return_dict=True)
    assert logs["accuracy"][0] == pytest.approx(found["accuracy"])
    assert logs["label/loss"][0] == pytest.approx(found["loss"], rel=1e-5)
    again = model.evaluate(X, MASKED, batch_size=7, verbose=0, return_dict=True)
    assert again == pytest.approx(found, rel=1e-5)


def test_class_weights_are_sample_weights_of_the_labels():
    factors = {0: 2.0, 2: 0.5}
    weights = {name: np.ones(7, "float32") for name in ("label", "site")}
    weights["label"] = np.array([factors.get(one, 1.0) for one in MASKED["label"]], "float32")
    y = {name: MASKED[name] for name in weights}
    logs = []
    for given in ({"class_weight": factors}, {"sample_weight": weights}):
        model = small(SITE)
        model.compile(keras.optimizers.SGD(0.0))
        logs.append(model.fit(X, y, batch_size=7, verbose=0, **given).history)
    assert logs[0] == {name: pytest.approx(value) for name, value in logs[1].items()}


@pytest.mark.parametrize("labels", ["one-hot", "several"])
def test_labels_may_be_vectors(labels):
    y = {**Y, "label": np.eye(3, dtype="float32")[Y["label"]]}
    loss = keras.losses.CategoricalCrossentropy(from_logits=True)
    model = small(SITE, condition_on_label=True)
    if labels == "several":
        loss = keras.losses.BinaryCrossentropy(from_logits=True)
    logs, _ = step(model, "graph", X, y, loss=loss)
    losses = keras.losses.get(loss)(y["label"], small(SITE)(X))
    expected = float(np.mean(keras.ops.convert_to_numpy(losses)))
    assert logs["label/loss"] == pytest.approx(expected, rel=1e-5)


def test_it_comes_back_from_a_file_and_trains_on_as_before(reloaded):
    settings = {"strength": {"site": 0.4, "age": GaninSchedule(20)}, "balanced": "site"}
    settings |= {"condition_on_label": True, "regularizers": [dann.MCC()]}
    backbone = dann.networks.mlp_backbone((3,), hidden_units=(6,))
    model = Invariant(backbone, 3, nuisances=SITE | AGE, **settings)
    model.compile(keras.optimizers.Adam(0.01, epsilon=1e-3), metrics=["accuracy"])
    model.fit(X, MASKED, batch_size=4, shuffle=False, verbose=0)
    again = reloaded(model)
    assert_all_equal(again.get_weights(), model.get_weights())
    for one in (model, again):
        one.fit(X, MASKED, batch_size=4, shuffle=False, verbose=0)
    assert_all_close(model.get_weights(), again.get_weights(), rtol=1e-5, atol=1e-7)
    assert again.reversals["age"].schedule == GaninSchedule(20)


@pytest.mark.tensorflow
def test_regularizers_layers_and_smooth_steps_join_it():
    decay = keras.regularizers.L2(0.5)
    inputs = keras.Input((3,))
    backbone = keras.Model(inputs, keras.layers.Dense(4, kernel_regularizer=decay)(inputs))
    joining = [dann.MCC(0.5), dann.VirtualAdversarial(radius=0.5, seed=1), dann.SelfEnsembling()]
    noise = {"source": keras.layers.GaussianNoise(0.1, seed=2)}
    model = Invariant(
        backbone, 3, nuisances=SITE, regularizers=joining, augmentation=noise, task_radius=1e-7
    )
    kernel = np.array(backbone.weights[0])
    model.compile(keras.optimizers.SGD(0.0))
    logs = model.fit(X, {k: Y[k] for k in ("label", "site")}, batch_size=7, verbose=0).history
    parts = float(model.total_loss({k: logs[k][0] for k in logs if k.endswith("/loss")}))
    assert logs["loss"][0] - parts == pytest.approx(0.5 * np.sum(kernel**2), rel=1e-4)
    for name in ("mcc/loss", "vat/loss", "self_ensembling/loss"):
        assert np.isfinite(logs[name][0])


def test_a_number_of_no_value_is_refused_or_makes_the_loss_nan():
    model = small(SITE)
    wrong = {**Y, "site": np.array([0, 1, 2, 0, 1, 0, 1])}
    model.compile("sgd")
    with pytest.raises(ValueError, match="'site' to be integers from 0 to 1"):
        model.fit(X, wrong, verbose=0)
    logs, _ = step(model, "graph", X, wrong)
    assert np.isnan(logs["site/loss"])


@pytest.mark.parametrize(
    "arguments",
    [
        {"nuisances": {}},
        {"nuisances": {"label": 2}},
        {"nuisances": {"site": 1}},
        {"strength": {"age": 1.0}},
        {"heads": {"other": linear(4, 2)}},
        {"heads": {"site": linear(4, 3)}},
        {"balanced": "age"},
        {"balanced": "other"},
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments):
    with pytest.raises(ValueError):  # noqa: PT011
        Invariant(linear(3, 4), 3, **{"nuisances": SITE | AGE, **arguments})


def test_labels_without_names_are_refused():
    model = small(SITE)
    model.compile("sgd")
    with pytest.raises(ValueError, match="Expected a dict of labels"):
        model.fit(X, Y["label"], verbose=0)
