"""The registry of diagnostics, and what a diagnosis is made of."""

import json

import keras
import numpy as np
import pytest
from linear_models import DATA
from support.networks import network

from dann.adaptation import DANN, METHODS
from dann.diagnostics import DIAGNOSTICS, Diagnosis, measure, verdict
from dann.diagnostics.catalogue import RANGES, Diagnostic
from dann.diagnostics.check import first

FEW = {"dann", "mdan", "source_only", "wdgrl"}  # one of each kind of step


def test_diagnostics_that_do_not_fit_are_left_out_and_say_why_and_each_is_announced():
    def counts(model, data):
        return {"count": len(data[1])}

    def refuses(model, data):
        raise TypeError("only for others")

    told = []
    found, skip_reasons = measure(
        None, DATA, {"count": counts, "other": refuses}, print_fn=told.append
    )
    assert found == {"count": 6}
    assert skip_reasons == {"other": "only for others"}
    assert [line.split(":")[0] for line in told] == ["1/2 count", "2/2 other"]


def test_first_examples_keep_the_labels_of_a_labelled_target():
    x = {"source": np.arange(4), "target": np.arange(5), "target_labelled": np.arange(2)}
    parts, labels = first((x, np.array([0, 1, 2, 3, 8, 9])), 2)
    assert [len(part) for part in parts.values()] == [2, 2, 2]
    assert labels.tolist() == [0, 1, 8, 9]


def test_what_works_like_a_step_gets_few_examples(monkeypatch):
    count = lambda model, data: {"examples": len(data[1])}  # noqa: E731
    for like_a_step, examples in ((True, 2), (False, 6)):
        monkeypatch.setitem(
            DIAGNOSTICS, "minmax_spectrum", Diagnostic(count, like_a_step=like_a_step)
        )
        assert measure(None, DATA, ["minmax_spectrum"], step_samples=2)[0] == {"examples": examples}


def test_a_diagnosis_is_json_also_where_numbers_are_not_finite():
    values = {"a": float("nan"), "b": np.array([1.0, np.inf])}
    said = verdict(values)
    parsed = json.loads(Diagnosis(said, values, metadata={"step": np.int64(3)}).to_json())
    assert parsed["measurements"] == {"a": None, "b": [1.0, None]}
    assert (parsed["verdict"], parsed["headline"]) == ("diverged", said.headline)
    assert (parsed["reasons"], parsed["advice"]) == (list(said.reasons), said.advice)
    assert (parsed["skip_reasons"], parsed["metadata"]) == ({}, {"step": 3})


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in FEW else pytest.mark.slow) for n in METHODS]
)
def test_every_method_is_diagnosed(name):
    facts = METHODS.facts[name]
    arguments = {**facts.get("arguments", {}), **facts.get("needs", {})}
    model = METHODS[name](network((3, 4, 2), "backbone", "relu"), num_classes=2, **arguments)
    model.compile("sgd")
    found, skip_reasons = measure(model, DATA)
    without_game = model.reversal is None or model.task_radius or model.critic_steps > 1
    expected = {"minmax_spectrum"} if without_game else set()
    expected |= {"gradient_conflict"} if model.reversal is None else set()
    assert set(skip_reasons) == expected, skip_reasons
    assert np.isfinite(found["sharpness/trace"])
    assert found["sharpness/trace"] != 0
    if name == "dann":  # every healthy range is of something that is measured
        named = [one.name for one in RANGES]
        assert len(set(named)) == len(named)
        assert set(named) - set(found) == {"binary/*/pass_rate"}  # it has no binary layer


class OfTwo(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(4)

    def call(self, inputs):
        return self.dense(inputs["image"] * inputs["meta"] if isinstance(inputs, dict) else inputs)


@pytest.mark.tensorflow
@pytest.mark.parametrize("several", [True, False])
def test_a_backbone_of_several_inputs_or_without_layers_is_measured_as_far_as_it_goes(several):
    """Jacobians are those of one input; signals follow the layers of a functional backbone."""
    x, labels = DATA
    backbone = OfTwo()
    if several:
        x = {domain: {"image": part, "meta": part} for domain, part in x.items()}
        inputs = {name: keras.Input((3,), name=name) for name in ("image", "meta")}
        backbone = keras.Model(inputs, backbone(inputs))
    backbone(x["source"])
    model = DANN(backbone, num_classes=2)
    model.compile("sgd")
    names = ["certify", "jacobians", "signal_propagation", "discriminator_vs_probe"]
    found, skip_reasons = measure(model, (x, labels), names)
    assert set(skip_reasons) == (
        {"jacobians", "signal_propagation"} if several else {"signal_propagation"}
    )
    assert found["reversal/cosine"] == pytest.approx(-1)
    if not several:
        norm = np.linalg.norm(backbone.dense.kernel)
        assert found["jacobian/source/features/norm"] == pytest.approx(norm, rel=1e-5)
