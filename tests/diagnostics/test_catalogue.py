"""The registry of diagnostics, and what a diagnosis and its figures are made of."""

import json

import keras
import numpy as np
import pytest
from linear_models import DATA
from support.networks import network

import dann
from dann.adaptation import DANN, METHODS
from dann.diagnostics import DIAGNOSTICS, Diagnosis, Verdict, check, measure
from dann.diagnostics.catalogue import ANY_MODEL, ModelKind, first, in_order, scalars
from dann.diagnostics.healthy_ranges import HealthyRange, evidence, healthy_ranges
from dann.diagnostics.report.figures import draw

FEW = {"pada", "mdan", "source_only", "wdgrl"}  # one of each kind of step


def test_diagnostics_that_do_not_fit_are_left_out_and_say_why():
    def counts(model, data):
        return {"count": len(data[1])}

    def refuses(model, data):
        raise TypeError("only for others")

    found, left_out = measure(None, DATA, {"count": counts, "other": refuses})
    assert found == {"count": 6}
    assert left_out == {"other": "only for others"}


@pytest.fixture
def registered(monkeypatch):
    """Registers a diagnostic that counts its examples, until the test ends."""
    monkeypatch.setattr(DIAGNOSTICS, "_entries", dict(DIAGNOSTICS._entries))

    def register(name, **facts):
        @DIAGNOSTICS.register(name, models=ANY_MODEL, **facts)
        def count(model, data):
            return {name: len(data[1])}

    return register


def test_what_works_like_a_step_gets_few_examples(registered):
    registered("steps", like_a_step=True)
    registered("looks")
    assert measure(None, DATA, ["steps", "looks"], few=2) == ({"steps": 2, "looks": 6}, {})
    like_a_step = {e.name for e in DIAGNOSTICS.entries() if e.facts.get("like_a_step")}
    differentiating = {"certificate", "parity", "conflict", "game", "straight_through", "sharpness"}
    assert like_a_step >= differentiating | {"steps"}


def test_a_registered_diagnostic_is_measured_and_if_it_is_quick_checked(registered):
    registered("slow")
    registered("quick", quick=True)
    ordered = [entry.name for entry in DIAGNOSTICS.entries() if "order" in entry.facts]
    assert {"quick", "slow"} <= set(in_order()[len(ordered) :])
    assert measure(None, DATA, ["slow", "quick"])[0] == {"slow": 6, "quick": 6}
    found = check(keras.Sequential([keras.layers.Dense(1)]), (DATA[0]["source"], DATA[1]))
    assert found.measurements["quick"] == 6
    assert "slow" not in found.measurements


def test_every_diagnostic_has_its_facts():
    for entry in DIAGNOSTICS.entries():
        assert isinstance(entry.facts["models"], ModelKind), entry.name
        assert getattr(dann.diagnostics, entry.thing.__name__) is entry.thing


def test_results_begin_with_the_certificate():
    assert in_order()[:3] == ["certificate", "parity", "winning"]


def test_first_examples_keep_the_labels_of_a_labelled_target():
    x = {"source": np.arange(4), "target": np.arange(5), "target_labelled": np.arange(2)}
    parts, labels = first((x, np.array([0, 1, 2, 3, 8, 9])), 2)
    assert {name: len(part) for name, part in parts.items()} == {
        "source": 2,
        "target": 2,
        "target_labelled": 2,
    }
    assert labels.tolist() == [0, 1, 8, 9]


def test_scalars_are_the_single_numbers():
    assert scalars({"a": 1, "b": np.ones(2), "c": "alive", "d": np.float32(2)}) == {"a": 1, "d": 2}


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
    assert found[-1].title == "Gradient through binary layer dense/input_sign"
    assert not evidence({"probe/loss": float("nan")})[0].is_healthy


def test_every_healthy_range_is_of_something_that_is_measured():
    model = DANN(network((3, 3, 2), "backbone"), num_classes=2)
    model.compile("sgd")
    found, left_out = measure(model, DATA)
    assert left_out == {}
    named = {one.name for one in healthy_ranges()}
    assert len(named) == len(healthy_ranges())
    assert named - set(found) == {"binary/*/passed"}  # it has no binary layer
    assert len(draw(found)) == 5


def test_a_healthy_range_reads_as_words():
    between = {"low": 0.25, "high": 4}
    assert str(HealthyRange("a/b", "", "", **between)) == "a/b 0.25 to 4"
    assert str(HealthyRange("a/b", "", "", high=4)) == "a/b at most 4"
    assert str(HealthyRange("a/b", "", "", low=0.25)) == "a/b at least 0.25"
    assert all(str(one).partition(" ")[2] for one in healthy_ranges())


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
    entry = METHODS.entry(name)
    arguments = {**entry.facts.get("arguments", {}), **entry.facts.get("needs", {})}
    model = entry.thing(network((3, 4, 2), "backbone", "relu"), num_classes=2, **arguments)
    model.compile("sgd")
    found, left_out = measure(model, DATA)
    without_game = model.reversal is None or model.task_radius or model.critic_steps > 1
    expected = {"game"} if without_game else set()
    expected |= {"conflict"} if model.reversal is None else set()
    assert set(left_out) == expected, left_out
    assert np.isfinite(found["sharpness/trace"])
    assert found["sharpness/trace"] != 0
