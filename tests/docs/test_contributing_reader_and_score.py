"""The reader and the score that CONTRIBUTING.md adds, as files of a copy of the package."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest
from scipy.io import savemat
from support.checkpoints import TARGET, checkpoint, logits

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
FILES = {
    name: re.search(rf'```\w+ title="{name}"\n(.*?)```', PAGE, flags=re.DOTALL)[1]
    for name in ("dann/data/mat.py", "conf/data/mat.yaml", "dann/selection/margin.py")
}
FEATURES = np.random.default_rng(0).normal(size=(2, 90, 5))
LABELS = np.arange(90) % 3


@pytest.fixture
def mat_files(tmp_path):
    """Two files as Office-Caltech has them."""
    paths = [tmp_path / name for name in ("amazon.mat", "webcam.mat")]
    for path, features in zip(paths, FEATURES, strict=True):
        savemat(path, {"fts": features, "labels": (LABELS + 1)[:, np.newaxis].astype("uint8")})
    return [str(path) for path in paths]


def defined_in(name, registry, monkeypatch):
    """The example's function, taken out of the registry again after the test."""
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    module = types.ModuleType(name)
    exec(FILES[name], module.__dict__)
    return registry[pathlib.Path(name).stem]


@pytest.mark.parametrize("name", FILES)
def test_an_example_has_at_most_25_lines(name):
    assert len(FILES[name].splitlines()) <= 25


@pytest.mark.tensorflow
def test_the_reader_pairs_the_features_with_labels_from_0(mat_files, monkeypatch):
    from dann.data import READERS

    domains = defined_in("dann/data/mat.py", READERS, monkeypatch)(*mat_files)
    assert (domains.num_classes, domains.input_shape) == (3, (5,))
    rows = {row.tobytes(): label for row, label in zip(FEATURES[0], LABELS, strict=True)}
    rows = {np.frombuffer(row).astype("float32").tobytes(): label for row, label in rows.items()}
    found = [rows[row.tobytes()] for row in domains.source_train[0]]
    np.testing.assert_array_equal(domains.source_train[1], found)


def test_the_score_is_the_mean_margin(monkeypatch):
    from dann.selection import SCORES

    margin = defined_in("dann/selection/margin.py", SCORES, monkeypatch)
    values = np.exp(logits(20, TARGET).astype("float64"))
    chances = values / values.sum(axis=1, keepdims=True)
    wanted = np.mean([row[-1] - row[-2] for row in map(sorted, chances)])
    assert margin(checkpoint(20), target=TARGET) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.tensorflow
def test_the_files_alone_make_them_choices_of_the_script(mat_files, tmp_path):
    for folder in ("dann", "conf", "scripts"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    command = [
        *(sys.executable, "scripts/train.py", "data=mat", "network=mlp", "selection=all"),
        *(f"data.source={mat_files[0]}", f"data.target={mat_files[1]}", "compare=false"),
        *("trainer.steps=2", "trainer.steps_per_epoch=2", "trainer.batch_size=8"),
        *("callbacks=none", "hydra.run.dir=run"),
    ]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    run = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert 0 <= summary["selection/margin"] <= 1
