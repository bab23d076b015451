"""Smartwatch activities, from generated recordings."""

import sys
import types

import numpy as np
import pytest

from dann.data import smartwatch_activities

RNG = np.random.default_rng(0)
PEOPLE = np.repeat(np.arange(1, 11), 14)


@pytest.fixture
def recordings(monkeypatch):
    """Fakes seglearn with recordings of the person in channel 0 and the exercise in channel 1."""
    exercises = np.tile(np.arange(7), 20)
    lengths = RNG.integers(200, 450, len(PEOPLE))
    series = [
        np.column_stack([np.full((n, 1), p), np.full((n, 1), y), RNG.normal(3, 2, (n, 4))])
        for n, p, y in zip(lengths, PEOPLE, exercises, strict=True)
    ]
    names = ["PEN", "ABD", "FEL", "IR", "ER", "TRAP", "ROW"]
    data = {"X": series, "y": exercises, "subject": PEOPLE, "y_labels": names}
    module = types.ModuleType("seglearn.datasets")
    module.load_watch = lambda: data
    monkeypatch.setitem(sys.modules, "seglearn", types.ModuleType("seglearn"))
    monkeypatch.setitem(sys.modules, "seglearn.datasets", module)
    return data


def test_people_are_split_whole(recordings):
    domains = smartwatch_activities(source=[1, 2, 3, 4], target=[5, 6, 7, 8], test_share=0.25)
    assert domains.name == "people 1,2,3,4 → people 5,6,7,8"
    assert domains.class_names == tuple(recordings["y_labels"])
    train, test = domains.source_train, domains.source_test
    np.testing.assert_allclose(train[0].mean(axis=(0, 1)), np.zeros(6), atol=1e-4)
    np.testing.assert_allclose(train[0].std(axis=(0, 1)), np.ones(6), atol=1e-4)
    people = [np.unique(x[:, :, 0].round(4)) for x in (train[0], test[0])]
    assert [len(values) for values in people] == [3, 1]
    assert not np.isin(people[1], people[0]).any()
    values = train[0][:, :, 1]  # one scaled number per exercise
    assert np.ptp(values, axis=1).max() < 1e-5
    assert np.corrcoef(values[:, 0], train[1])[0, 1] == pytest.approx(1, abs=1e-6)
    used = np.flatnonzero(PEOPLE <= 4)
    assert len(train[0]) + len(test[0]) == sum(len(recordings["X"][i]) // 100 for i in used)


REFUSALS = {
    "unknown person": ({"source": [1, 11]}, r"different people of .*Received: \[1, 11\]"),
    "person of the target": ({"source": [1, 6]}, "different people"),
    "empty window": ({"window": 0}, "`window`"),
    "one person": ({"source": [1]}, "train set will be empty"),
}


@pytest.mark.parametrize(("arguments", "words"), REFUSALS.values(), ids=REFUSALS)
def test_unusable_arguments_are_refused(recordings, arguments, words):
    with pytest.raises(ValueError, match=words):
        smartwatch_activities(**arguments)


def test_missing_package_names_the_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "seglearn.datasets", None)
    with pytest.raises(ImportError, match=r"pip install seglearn"):
        smartwatch_activities()
