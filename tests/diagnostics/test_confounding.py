"""Classes that occur with one value of a nuisance, and accuracy by these values."""

import numpy as np
import pandas
import pytest

from dann.diagnostics import accuracy_by_nuisance, find_confounded_classes


def test_confounded_sets_are_named_and_balanced_sets_are_not():
    num_named, num_alarms = 0, 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        count, num_classes, num_values = rng.integers([60, 2, 2], [400, 5, 5])
        labels = rng.integers(num_classes, size=count)
        site = rng.integers(num_values, size=count)
        num_alarms += bool(find_confounded_classes(labels, site))
        site[labels == 1] = 0
        named = find_confounded_classes(labels, site)
        num_named += [(row.label, row.value, row.share) for row in named] == [(1, 0, 1.0)]
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
