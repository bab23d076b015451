"""The registry of diagnostics, a diagnosis, and its report."""

import json
import re

import numpy as np
import pytest
from linear_models import DATA
from support.networks import network

from dann.adaptation import WDGRL
from dann.adaptation.adversarial_model import METHODS
from dann.diagnostics.catalogue import RANGES
from dann.diagnostics.check import Diagnosis, measure
from dann.diagnostics.evidence import evidence
from dann.diagnostics.page import Picture, draw, page
from dann.diagnostics.verdict import STATES, VERDICTS, verdict

MEASUREMENTS = {
    "reversal/state": "working",
    "reversal/cosine": -1.0,
    "reversal/ratio": 0.3,
    "reversal/strength": 0.3,
    "domain/loss": 0.5,
    "domain/accuracy": 0.6,
    "probe/accuracy": 0.78,
    "probe/low": 0.74,
    "probe/high": 0.82,
    "probe/loss": 0.45,
    "game/eigenvalues/real": np.array([4.0, 0.5, 0.5, -0.1]),
    "game/eigenvalues/imag": np.array([0.0, 0.7, -0.7, 0.0]),
    "game/step": 0.02,
}
METADATA = {"method": "DANN", "source": "black & <white>", "target": "photos", "step": 1500}


def render(measurements, *arguments):
    skip_reasons = {"sharpness": "no loss"}
    diagnosis = Diagnosis(verdict(measurements), measurements, skip_reasons, METADATA)
    return page(diagnosis, draw(measurements), *arguments)


def test_report_begins_with_verdict_reasons_and_advice():
    accuracies = {"source only": (0.99, 0.75), "DANN": (0.98, None)}
    content = render(MEASUREMENTS, accuracies, [Picture("samples", "Images.", b"png", "png")])
    text = " ".join(re.sub(r"<[^>]+>", " ", content.partition("<main>")[2]).split())
    parts = ["Partly aligned: ", "A new domain probe has an accuracy of 78%", "74% to 82%"]
    parts += ["What to do.", "source target ", "source only 99.0% 75.0%"]
    parts += ["DANN 98.0% unknown", "but selected nothing.", "Images.", "1 of 4 values"]
    parts += ["✗ outside;", "✗ probe/accuracy 0.78", "run=... label=50", "✓ reversal/ratio 0.3"]
    parts += ["✓ domain/loss 0.5", "suspicious if far above a new", "no loss"]
    positions = [text.index(part) for part in parts]
    assert positions == sorted(positions)
    assert "black &amp; &lt;white&gt; → photos" in text
    assert "class='verdict neutral'" in content
    assert "but selected nothing" not in render(MEASUREMENTS, {"DANN": (0.98, None)})
    # The page needs no other file.
    assert re.findall(r"""(?:src|href)=["'](?!data:)""", content) == []
    assert "url(" not in content


def test_verdict_is_not_green_with_an_unhealthy_value():
    aligned = MEASUREMENTS | {"probe/accuracy": 0.5, "probe/low": 0.46, "probe/high": 0.54}
    assert "class='verdict healthy'" in render(aligned)
    assert "class='verdict neutral'" in render(aligned | {"conflict/cosine": -0.95})
    assert "class='verdict unhealthy'" in render(aligned | {"reversal/state": "detached"})
    assert "! <code>domain/loss" in render(MEASUREMENTS | {"domain/loss": 3e-5})


def test_evidence_lists_unhealthy_values_first():
    lone = {"reversal/ratio": 0.4, "label/loss": 5.0, "sharpness/top_eigenvalue": 9.0}
    assert evidence(lone) == []  # the bounds depend on missing measurements
    limits = {"reversal/strength": 0.3, "label/prior_entropy": 0.7, "game/step": 0.1}
    measurements = {"domain/loss": 0.95, "probe/loss": 0.4, "binary/dense/sign/pass_rate": 0.5}
    rows = evidence({**lone, **limits, **measurements, "unknown": 3.0})
    assert [row.is_healthy for row in rows] == [False] * 3 + [True] * 2
    healthy = {row.name for row in rows if row.is_healthy}
    assert healthy == {"binary/dense/sign/pass_rate", "sharpness/top_eigenvalue"}


def test_every_verdict_has_a_range_or_a_state():
    names = {healthy.verdict for healthy in RANGES} | {state.verdict for state in STATES.values()}
    levels = {"aligned", "partly aligned", "not aligned", "reversal working", "dead units"}
    assert names - {None} == set(VERDICTS) - levels


# One method per kind of step; the others run among the slow tests.
QUICK_METHODS = {"dann", "wdgrl"}
CASES = [pytest.param(n, marks=[] if n in QUICK_METHODS else pytest.mark.slow) for n in METHODS]


def test_unsuitable_diagnostics_are_skipped_and_all_announced():
    def count(model, data):
        return {"count": len(data[1])}

    def refuse(model, data):
        raise TypeError("only for other models")

    lines = []
    functions = {"count": count, "other": refuse}
    measurements, skip_reasons = measure(None, DATA, functions, print_fn=lines.append)
    assert measurements == {"count": 6}
    assert skip_reasons == {"other": "only for other models"}
    assert [line.split(":")[0] for line in lines] == ["1/2 count", "2/2 other"]


def test_diagnosis_is_json_with_null_for_infinite_numbers():
    values = {"a": float("nan"), "b": np.array([1.0, np.inf])}
    result, metadata = verdict(values), {"step": np.int64(3)}
    parsed = json.loads(Diagnosis(result, values, metadata=metadata).to_json())
    assert parsed["measurements"] == {"a": None, "b": [1.0, None]}
    assert (parsed["verdict"], parsed["advice"]) == ("diverged", result.advice)
    assert (parsed["skip_reasons"], parsed["metadata"]) == ({}, {"step": 3})


@pytest.mark.parametrize("name", CASES)
def test_every_method_is_diagnosed(name):
    metadata = METHODS.metadata[name]
    arguments = {**metadata.get("arguments", {}), **metadata.get("example_arguments", {})}
    model = METHODS[name](network((3, 4, 2), "backbone", "relu"), num_classes=2, **arguments)
    model.compile("sgd")
    measurements, skip_reasons = measure(model, DATA)
    without_game = model.reversal is None or model.task_radius or isinstance(model, WDGRL)
    expected = {"minmax_spectrum"} if without_game else set()
    expected |= {"gradient_conflict"} if model.reversal is None else set()
    assert set(skip_reasons) == expected, skip_reasons
    assert np.isfinite(measurements["sharpness/trace"])
    assert measurements["sharpness/trace"] != 0
    if name == "dann":  # every healthy range has a measurement
        names = [healthy.name for healthy in RANGES]
        assert len(set(names)) == len(names)
        assert set(names) - set(measurements) == {"binary/*/pass_rate"}  # without a binary layer
