"""Checks CONTRIBUTING.md: its examples work, and the files that it names exist."""

import re
import sys
import tomllib
import types

import keras
import numpy as np
import pages
import pytest
from scipy.io import savemat

import dann.adaptation
from dann.adaptation.adversarial_model import METHODS
from dann.selection.outputs import Outputs
from dann.selection.scores import SCORES

PAGE = (pages.ROOT / "CONTRIBUTING.md").read_text()
EXAMPLES = dict(re.findall(r'^```python title="(.*?)"\n(.*?)^```', PAGE, re.DOTALL | re.MULTILINE))


@pytest.fixture
def run_example(monkeypatch):
    """Runs an example as the module of its file; undoes its registrations afterwards."""
    for registry in (SCORES, SCORES.metadata):
        monkeypatch.setitem(registry, "margin", None)
    for registry in (METHODS, METHODS.metadata):
        monkeypatch.setitem(registry, "mean_matching", None)
    monkeypatch.setitem(keras.saving.get_custom_objects(), "dann>MeanMatching", None)

    def run(path):
        module = types.ModuleType(path.removesuffix(".py").replace("/", "."))
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(EXAMPLES[path], module.__dict__)
        return module

    return run


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_method_example_matches_its_formula(run_example, monkeypatch, mode):
    module = run_example("dann/adaptation/mean_matching.py")
    monkeypatch.setattr(dann.adaptation, "MeanMatching", module.MeanMatching, raising=False)
    run_example("tests/adaptation/test_mean_matching.py").test_step_matches_formula(mode)


def test_score_example_computes_margin(run_example):
    run_example("dann/selection/margin.py")
    logits = np.random.default_rng(0).normal(size=(20, 3))
    probabilities = np.sort(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True))
    expected = np.mean(probabilities[:, 2] - probabilities[:, 1])
    np.testing.assert_allclose(SCORES["margin"](Outputs(target_logits=logits)), expected)


def test_reader_example_loads_matlab_files(run_example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    features = np.random.default_rng(0).normal(size=(90, 5))
    labels = np.arange(90, dtype="uint8")[:, None] % 3 + 1
    for name in ("amazon.mat", "webcam.mat"):
        savemat(name, {"fts": features, "labels": labels})
    domains = run_example("dann/data/mat.py").mat("amazon.mat", "webcam.mat")
    assert (domains.num_classes, domains.input_shape) == (3, (5,))
    label_by_row = dict(zip(features[:, 0].astype("float32"), labels[:, 0] - 1, strict=True))
    inputs, labels = domains.source_train
    np.testing.assert_array_equal([label_by_row[np.float32(row[0])] for row in inputs], labels)


def test_paths_on_page_exist():
    paths = re.findall(r"`((?:dann|conf|tests|docs|benchmarks|scripts)/[\w/.]*)`", PAGE)
    assert len(paths) >= 40
    assert [path for path in paths if not (pages.ROOT / path).exists()] == []


def test_page_lists_every_dependency():
    project = tomllib.loads((pages.ROOT / "pyproject.toml").read_text())["project"]
    names = [re.match(r"[\w-]+", requirement)[0] for requirement in project["dependencies"]]
    assert [name for name in names if f"`{name}`" not in PAGE] == []
