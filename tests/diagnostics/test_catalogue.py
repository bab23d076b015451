"""The registry of diagnostics, and the parts of a diagnosis."""

import json

import numpy as np
import pytest
from linear_models import DATA
from support.networks import network

from dann.adaptation import METHODS, WDGRL
from dann.diagnostics import Diagnosis, measure, verdict
from dann.diagnostics.catalogue import RANGES

# One method per kind of step; the others run among the slow tests.
QUICK_METHODS = {"dann", "mdan", "source_only", "wdgrl"}


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
    result = verdict(values)
    parsed = json.loads(Diagnosis(result, values, metadata={"step": np.int64(3)}).to_json())
    assert parsed == {
        "verdict": "diverged",
        "headline": result.headline,
        "reasons": list(result.reasons),
        "advice": result.advice,
        "measurements": {"a": None, "b": [1.0, None]},
        "skip_reasons": {},
        "metadata": {"step": 3},
    }


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in QUICK_METHODS else pytest.mark.slow) for n in METHODS]
)
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
