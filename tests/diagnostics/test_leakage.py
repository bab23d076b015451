"""Leakage and confounding of nuisances where the answer is known."""

import importlib

import keras
import numpy as np
import pandas
import pytest

import dann
from dann.diagnostics import accuracy_by_nuisance, find_confounded_classes, leakage

leakage_file = importlib.import_module("dann.diagnostics.leakage")  # the function has this name
RNG = np.random.default_rng(5)
COUNT = 240
SITE = RNG.integers(0, 3, COUNT)
AGE = RNG.normal(50, 9, COUNT)
NOISE = RNG.normal(size=(COUNT, 2))
CENTERS = np.array([[0, 0], [5, 0], [0, 5]])


def test_present_nuisances_are_detected_and_absent_ones_not():
    names = np.array(["a", "b", "c"])[SITE]
    features = np.column_stack([CENTERS[SITE] + NOISE, AGE])
    nuisances = {
        "site": names,
        "age": np.where(np.arange(COUNT) < 40, np.nan, AGE),
        "parity": np.arange(COUNT) % 2,
        "random": NOISE[::-1, 0],
    }
    results = leakage(features, None, nuisances)
    assert [result.is_detected for result in results.values()] == [True, True, False, False]
    chances = [result.chance for result in results.values()]
    assert chances == [pytest.approx(1 / 3), 0, 0.5, 0]
    assert results["site"].score > 0.95
    assert results["age"].probes["linear"] > 0.99
    assert all(result.low <= result.score <= result.high for result in results.values())
    score = results["site"].score
    assert str(results["site"]).startswith(f"site: balanced accuracy {score:.0%} (chance 33%, 95%")
    assert str(results["age"]).startswith(f"age: R² {results['age'].score:.2f} (chance 0, 95%")
    assert str(results["parity"]).endswith("not detected")


def test_nonlinear_nuisance_is_detected_by_the_other_probes():
    ring = np.hypot(*NOISE.T) > 1.2
    result = leakage(NOISE, None, {"ring": ring})["ring"]
    assert result.probes["linear"] < 0.65 < 0.85 < result.score
    assert result.score == pytest.approx(max(result.probes.values()), abs=0.05)
    hill = 50 + 9 * NOISE[:, 0] ** 2  # far from 0, such as years
    probes = leakage(NOISE, None, {"hill": hill})["hill"].probes
    assert probes["linear"] < 0.1 < 0.8 < min(probes["forest"], probes["network"])


def test_rare_values_count_as_much_as_frequent_ones():
    rare = np.arange(COUNT) % 12 == 0
    absent = leakage(NOISE, None, {"rare": rare})["rare"]
    assert absent.chance == 0.5
    assert not absent.is_detected  # although predicting the frequent value is correct for 92%
    assert leakage(NOISE + 6 * rare[:, None], None, {"rare": rare})["rare"].score > 0.95


@pytest.mark.slow
def test_labels_add_the_leakage_beyond_the_label():
    """The features depend on the label alone, which depends on the site."""
    labels = np.where(RNG.random(COUNT) < 0.8, SITE, (SITE + 1) % 3)
    features = CENTERS[labels] + NOISE
    results = leakage(features, None, {"site": SITE, "age": AGE + 20 * labels}, labels)
    assert [results[name].is_detected for name in ("site", "age")] == [True, True]
    conditional = [results[f"{name} given the label"] for name in ("site", "age")]
    assert [result.is_detected for result in conditional] == [False, False]
    assert conditional[0].chance == pytest.approx(0.5)  # each label has two sites


def test_a_group_is_not_split_between_training_and_test():
    """Each patient has a site, and features that depend on the patient alone."""
    rng = np.random.default_rng(0)
    patients = rng.integers(0, 40, COUNT)
    features = rng.normal(size=(40, 6))[patients] + 0.05 * rng.normal(size=(COUNT, 6))
    site = {"site": patients % 2}
    ungrouped = leakage(features, None, site)["site"]
    grouped = leakage(features, None, site, groups=patients)["site"]
    assert grouped.score < 0.7 < 0.9 < ungrouped.score
    assert grouped.high - grouped.low > 2 * (ungrouped.high - ungrouped.low)


@pytest.mark.parametrize("sites", [[0, 0, 0, 1, 1, 1, 2, 2, 2], [0, 0, 0, 1, 1, 1, 1, 1, 1]])
def test_class_of_three_groups_is_found_with_every_seed(sites):
    patients = np.repeat(np.arange(9), 20)
    site = np.array(sites)[patients]
    features = 9 * np.eye(3)[site] + RNG.normal(size=(180, 3))
    for seed in range(2):  # random folds put three of the patients together for some seeds
        result = leakage(features, None, {"site": site}, groups=patients, seed=seed)["site"]
        assert result.score == 1.0


CODES = {"a": 0.0, "b": 1.0, "c": 2.0}
TEXTS = pandas.Series(np.array([*CODES])[SITE]).where(np.arange(COUNT) > 9)
FLOATS = TEXTS.map(CODES)


COLUMN = FLOATS.fillna(-1).astype(int).to_numpy()[:, None]
CATEGORIES = pandas.Categorical(TEXTS), pandas.Categorical(FLOATS)
CLASSES = [TEXTS, TEXTS.to_numpy(), *CATEGORIES, FLOATS.astype("Int64"), COLUMN]


@pytest.mark.parametrize("values", CLASSES)
def test_classes_may_have_any_type_with_missing_values(values, monkeypatch):
    monkeypatch.setattr(leakage_file, "_measure", lambda name, features, numbers, *_: numbers)
    numbers = leakage(NOISE, None, {"site": values})["site"]
    np.testing.assert_array_equal(numbers, np.where(np.arange(COUNT) > 9, SITE, -1))


def test_declaration_decides_about_whole_floating_point_values():
    backbone = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])
    model = dann.Invariant(backbone, 2, nuisances={"site": 3})
    features = (CENTERS[SITE] + NOISE).astype("float32")
    assert leakage(model, features, {"site": FLOATS})["site"].chance == pytest.approx(1 / 3)
    number = leakage(model, features, {"site": FLOATS}, kinds={"site": "number"})["site"]
    assert number.chance == 0.0


def test_fold_uses_best_probe_of_the_other_folds(monkeypatch):
    """One probe is correct on the first fold except for one example, one on the other folds."""
    values, fold = np.arange(30) % 2, np.arange(30) // 10
    first, later = fold == 0, fold != 0
    first[0] = False
    masks = first, later, 0 * fold
    predictions = np.stack([np.where(mask, values, 1 - values) for mask in masks])
    monkeypatch.setattr(leakage_file, "_predict", lambda *_: (predictions, fold))
    assert leakage(np.zeros((30, 1)), None, {"side": values})["side"].score == 2 / 3


def test_confounded_sets_are_named_and_balanced_sets_are_not():
    num_named, num_alarms = 0, 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        count, num_classes, num_values = rng.integers([60, 2, 2], [400, 5, 5])
        labels = rng.integers(num_classes, size=count)
        site = rng.integers(num_values, size=count)
        num_alarms += bool(find_confounded_classes(labels, site))
        site[labels == 1] = 0
        classes = find_confounded_classes(labels, site)
        num_named += [(row.label, row.value, row.share) for row in classes] == [(1, 0, 1.0)]
    assert (num_named, num_alarms) == (20, 0)


def test_few_exceptions_and_missing_values_are_allowed():
    kind, site = np.repeat(["ill", "well"], 100), np.tile(["a", "b"], 100).astype(object)
    site[:96], site[96:98] = "b", None
    (row,) = find_confounded_classes(kind, site)
    assert (row.label, row.value, row.share) == ("ill", "b", pytest.approx(97 / 98))
    assert str(row) == "99% of class ill have the value b (74% of all examples)"
    site[:7] = "a"
    assert find_confounded_classes(kind, site) == []


def test_accuracy_is_the_fraction_of_each_cell():
    labels, predicted = np.array([0, 0, 0, 1, 1]), np.array([0, 1, 0, 1, 0])
    table = accuracy_by_nuisance(labels, predicted, ["a", "a", "b", "b", "b"])
    expected = pandas.DataFrame({"a": [0.5, np.nan], "b": [1.0, 0.5]})
    np.testing.assert_array_equal(table, expected)
    age = np.arange(90.0)
    table = accuracy_by_nuisance(np.zeros(90), age < 45, age)  # in three intervals of 30 examples
    np.testing.assert_allclose(table, [[0.0, 0.5, 1.0]])
    table = accuracy_by_nuisance(np.zeros(90), age < 45, np.full(90, 2.5))
    assert table[2.5].tolist() == [0.5]
