"""The registry of diagnostics, and what a diagnosis and its figures are made of."""

import json

import numpy as np
import pytest
from linear_models import DATA
from support.networks import network

from dann.adaptation import DANN, METHODS
from dann.diagnostics import DIAGNOSTICS, Diagnosis, Verdict, measure
from dann.diagnostics.catalogue import Diagnostic
from dann.diagnostics.check import first
from dann.diagnostics.figures import draw
from dann.diagnostics.page import evidence

FEW = {"pada", "mdan", "source_only", "wdgrl"}  # one of each kind of step


def test_diagnostics_that_do_not_fit_are_left_out_and_say_why():
    def counts(model, data):
        return {"count": len(data[1])}

    def refuses(model, data):
        raise TypeError("only for others")

    found, left_out = measure(None, DATA, {"count": counts, "other": refuses})
    assert found == {"count": 6}
    assert left_out == {"other": "only for others"}


def test_first_examples_keep_the_labels_of_a_labelled_target():
    x = {"source": np.arange(4), "target": np.arange(5), "target_labelled": np.arange(2)}
    parts, labels = first((x, np.array([0, 1, 2, 3, 8, 9])), 2)
    assert {name: len(part) for name, part in parts.items()} == {
        "source": 2,
        "target": 2,
        "target_labelled": 2,
    }
    assert labels.tolist() == [0, 1, 8, 9]


def test_evidence_lists_values_beside_their_healthy_ranges_the_unhealthy_first():
    found = evidence(
        {
            "reversal/cosine": 1.0,
            "reversal/ratio": 0.5,
            "reversal/strength": 0.5,
            "probe/loss": 0.4,
            "domain/loss": 0.95,
            "binary/dense/input_sign/passed": 0.5,
            "game/step": 0.2,
            "game/largest_stable_step": 0.1,
            "unknown": 3.0,
        }
    )
    state = {one.name: one.is_healthy for one in found}
    assert state == {
        "reversal/cosine": False,
        "domain/loss": False,  # a fresh one has .4
        "game/largest_stable_step": False,
        "reversal/ratio": True,
        "probe/loss": True,
        "binary/dense/input_sign/passed": True,
    }
    assert [one.is_healthy for one in found] == [False] * 3 + [True] * 3
    assert not evidence({"probe/loss": float("nan")})[0].is_healthy


def test_every_healthy_range_is_of_something_that_is_measured():
    model = DANN(network((3, 3, 2), "backbone"), num_classes=2)
    model.compile("sgd")
    found, left_out = measure(model, DATA)
    assert left_out == {}
    named = [one.name for each in DIAGNOSTICS.values() for one in each.healthy]
    assert len(set(named)) == len(named)
    assert set(named) - set(found) == {"binary/*/passed"}  # it has no binary layer
    assert len(draw(found)) == 4


def test_what_works_like_a_step_gets_few_examples(monkeypatch):
    count = lambda model, data: {"examples": len(data[1])}  # noqa: E731
    for like_a_step, examples in ((True, 2), (False, 6)):
        monkeypatch.setitem(DIAGNOSTICS, "game", Diagnostic(count, like_a_step=like_a_step))
        assert measure(None, DATA, ["game"], few=2)[0] == {"examples": examples}


def test_a_diagnosis_is_json_also_where_numbers_are_not_finite():
    values = {"a": float("nan"), "b": np.array([1.0, np.inf])}
    found = Diagnosis(Verdict("unstable", ("because",)), values, about={"step": np.int64(3)})
    parsed = json.loads(found.to_json())
    assert parsed["measurements"] == {"a": None, "b": [1.0, None]}
    assert (parsed["verdict"], parsed["reasons"]) == ("unstable", ["because"])
    assert (parsed["left_out"], parsed["about"]) == ({}, {"step": 3})


def test_figures_show_what_was_measured_and_are_the_same_each_time():
    game = {"game/eigenvalues/real": np.array([1.0, 0.2]), "game/eigenvalues/imag": np.zeros(2)}
    (picture,) = draw(game)
    assert picture.name == "game"
    assert picture.svg.lstrip().startswith(b"<?xml")
    assert draw(game)[0].svg == picture.svg
    assert draw({}) == []


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_figures_accept_numbers_that_are_not_finite(value):
    found = {
        "domain/loss": value,
        "jacobian/source/features/singular_values": np.array([value, 1.0]),
        "jacobian/target/features/singular_values": np.array([2.0, 1.0]),
        "signal/source/a/gain": value,
        "signal/target/a/gain": 1.0,
    }
    assert [picture.name for picture in draw(found)] == [
        "discriminators",
        "gains",
        "singular_values",
    ]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in FEW else pytest.mark.slow) for n in METHODS]
)
def test_every_method_is_diagnosed(name):
    facts = METHODS.facts[name]
    arguments = {**facts.get("arguments", {}), **facts.get("needs", {})}
    model = METHODS[name](network((3, 4, 2), "backbone", "relu"), num_classes=2, **arguments)
    model.compile("sgd")
    found, left_out = measure(model, DATA)
    without_game = model.reversal is None or model.task_radius or model.critic_steps > 1
    expected = {"game"} if without_game else set()
    expected |= {"conflict"} if model.reversal is None else set()
    assert set(left_out) == expected, left_out
    assert np.isfinite(found["sharpness/trace"])
    assert found["sharpness/trace"] != 0
