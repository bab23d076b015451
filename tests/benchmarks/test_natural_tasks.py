"""Checks that the natural tasks resume, and that held-out styles are kept apart."""

import keras
import numpy as np
import pandas
import pytest

import dann

pytest.importorskip("tensorflow")
if keras.backend.backend() != "tensorflow":
    pytest.skip("was recorded with TensorFlow", allow_module_level=True)

from benchmarks import natural_tasks  # noqa: E402


def test_only_missing_settings_are_trained(monkeypatch):
    monkeypatch.setattr(natural_tasks, "SEEDS", (0,))
    baselines = {f"{name}, beta_1 0.5": method for name, method in natural_tasks.BASELINES.items()}
    monkeypatch.setattr(natural_tasks, "LOW_MOMENTUM", baselines)
    x, y = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 2
    domains = dann.data.arrays((x, y), (x + 1, y))
    finished = {"source_only", "target_only", "MCC", "standardized each + MCC"}
    finished |= {"standardized each + DANN"}
    tables = natural_tasks.train_task(
        lambda: domains, dann.networks.mlp_backbone, natural_tasks.BASELINES, finished, 2
    )
    rows = pandas.concat(tables)
    settings = {"CORAL", *baselines, "source only, beta_1 0.5", "gradient boosting"}
    assert sorted(rows["setting"]) == sorted(settings)
    assert rows["target/balanced_accuracy"].between(0, 1).all()


def test_held_out_styles_occur_only_in_held_out_tasks():
    styles = {"noto", "twemoji"}
    for held_out in (False, True):
        for task in natural_tasks.make_tasks("folder", held_out):
            assert bool(styles & set(task.split())) == held_out, task
