"""`scripts/export.py` as a user runs it."""

import shutil

import keras
import numpy as np
import pytest
from omegaconf import OmegaConf

from dann.deployment import load
from dann.layers import BinaryDense


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """What the export needs of a run: its config and its classifier."""
    folder = tmp_path_factory.mktemp("run")
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        labels = np.arange(60) % 3
        np.savez(folder / f"{name}.npz", x=rng.standard_normal((60, 5), "float32"), y=labels)
    data = {"_target_": "dann.data.npz", "source": f"{folder}/a.npz", "target": f"{folder}/b.npz"}
    (folder / ".hydra").mkdir()
    paths = {"data_dir": None, "cache_dir": str(folder), "run_dir": str(folder)}
    OmegaConf.save({"data": data, "paths": paths}, folder / ".hydra/config.yaml")
    model = keras.Sequential([keras.Input((5,)), BinaryDense(3, use_bias=False)])
    model.save(folder / "classifier.keras")
    return folder


@pytest.fixture
def run(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run")


def test_a_run_is_exported_into_its_directory(run, tmp_path, run_here):
    result = run_here("export.py", [f"run={run}"], tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    path = run / "export/classifier.dann"
    assert f"{path}: {path.stat().st_size} bytes; 12 of 12 examples get the same" in result.stdout
    inputs = np.random.default_rng(1).standard_normal((4, 5))
    expected = keras.models.load_model(run / "classifier.keras").predict(inputs, verbose=0)
    np.testing.assert_array_equal(load(path).predict(inputs), expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["format=gguf"],
            "Received: format='gguf'",
        ),
        (["run=nowhere"], "no nowhere/"),
    ],
)
def test_a_wrong_command_is_reported_in_one_line(
    run, tmp_path, arguments, message, run_here, check_refused
):
    check_refused(run_here("export.py", [f"run={run}", *arguments], tmp_path), message)


def test_a_classifier_that_cannot_be_packed_is_reported_in_one_line(
    run, tmp_path, run_here, check_refused
):
    layer = keras.layers.Dense(3, activation="gelu", name="curved")
    keras.Sequential([keras.Input((5,)), layer]).save(run / "classifier.keras")
    result = run_here("export.py", [f"run={run}"], tmp_path)
    check_refused(result, "Layer 'curved' computes Gelu")
    assert not any((run / "export").iterdir())


def test_a_classifier_that_holds_code_is_refused(run, tmp_path, run_here, check_refused):
    layers = [keras.Input((5,)), keras.layers.Lambda(lambda x: x[:, :3])]
    keras.Sequential(layers).save(run / "classifier.keras")
    before = sorted(run.rglob("*"))
    result = run_here("export.py", [f"run={run}"], tmp_path)
    check_refused(result, f"Received: {run}/classifier.keras")
    assert "unsafe" not in result.stderr
    assert sorted(run.rglob("*")) == before
