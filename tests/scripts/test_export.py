"""`scripts/export.py` as a user runs it."""

import importlib.util
import shutil
import warnings
import zipfile

import keras
import numpy as np
import pytest
from omegaconf import OmegaConf

from dann.deployment import load
from dann.layers import BinaryDense
from dann.training import RunDirectory, export_run


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
    (run / "export/unchecked_classifier.dann").mkdir(parents=True)  # of an export that was killed
    result = run_here("export.py", [f"run={run}"], tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    path = run / "export/classifier.dann"
    assert f"{path}: {path.stat().st_size} bytes; 12 of 12 examples get the same" in result.stdout
    inputs = np.random.default_rng(1).standard_normal((4, 5))
    expected = keras.models.load_model(run / "classifier.keras").predict(inputs, verbose=0)
    np.testing.assert_array_equal(load(path).predict(inputs), expected)


def test_what_is_compared_is_spread_over_the_test_set(run, monkeypatch):
    def kept(model, format, folder, inputs, tolerance):
        assert inputs.tolist() == [[0.0], [5.0], [10.0]]
        found = {"path": "", "bytes": 1, "examples": len(inputs), "difference": 0.0}
        return {**found, "agreement": 2 / 3, "rounded": 2}

    monkeypatch.setattr(export_run, "export", kept)
    inputs = np.arange(11.0)[:, None]
    told = export_run.export_run(RunDirectory(run), None, inputs, "packed", examples=3)
    assert "1 of 3 examples get the same classes" in told
    assert "in 2 rounding decides" in told
    assert told.endswith("and the class differs in 1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["format=gguf"],
            "`format` must be one of 'keras', 'litert', 'onnx', 'packed'",
        ),
        (["examples=0"], "`examples` must be an integer of at least 1"),
        (["tolerance=nan"], "`tolerance` must be a finite number of at least 0"),
        (["run=nowhere"], "run must be a directory that scripts/train.py wrote. Received: nowhere"),
    ],
)
def test_a_wrong_command_is_reported_in_one_line(
    run, tmp_path, arguments, message, run_here, check_refused
):
    check_refused(run_here("export.py", [f"run={run}", *arguments], tmp_path), message)


def test_a_file_in_place_of_the_export_folder_is_reported_in_one_line(
    run, tmp_path, run_here, check_refused
):
    (run / "export").write_text("mine")
    result = run_here("export.py", [f"run={run}"], tmp_path)
    check_refused(result, f"Exports go into a folder. Received: {run}/export, a file")
    assert (run / "export").read_text() == "mine"


def test_a_missing_package_is_reported_in_one_line(
    run, tmp_path, monkeypatch, run_here, check_refused
):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "tf2onnx" else find(name)
    )
    result = run_here("export.py", [f"run={run}", "format=onnx"], tmp_path)
    check_refused(result, "missing. Install them with `pip install tf2onnx`")


def test_a_classifier_that_cannot_be_packed_is_reported_in_one_line(
    run, tmp_path, run_here, check_refused
):
    layer = keras.layers.Dense(3, activation="gelu", name="curved")
    keras.Sequential([keras.Input((5,)), layer]).save(run / "classifier.keras")
    result = run_here("export.py", [f"run={run}"], tmp_path)
    check_refused(result, "Layer 'curved' has an activation that cannot be packed")
    assert not any((run / "export").iterdir())


ATTACK = {
    "_target_": "dann.experiments.processes.Processes.run",
    "_args_": [
        {"_target_": "dann.experiments.processes.Processes"},
        ["touch", "proof"],
    ],
}


@pytest.mark.parametrize("script", ["export.py", "diagnose.py", "evaluate.py"])
def test_a_run_of_a_stranger_that_names_a_command_does_not_run_it(
    script, run, tmp_path, run_here, check_refused
):
    cfg = OmegaConf.load(run / ".hydra/config.yaml")
    cfg.data = cfg.callbacks = cfg.method = ATTACK
    OmegaConf.save(cfg, run / ".hydra/config.yaml")
    (run / "checkpoints").mkdir()
    shutil.copy(run / "classifier.keras", run / "checkpoints/last.keras")
    check_refused(run_here(script, [f"run={run}"], tmp_path))
    assert not (tmp_path / "proof").exists()


@pytest.mark.parametrize("way", ["code", "cut", "damaged", "an unknown class"])
def test_a_broken_classifier_is_reported_in_our_own_line(
    run, tmp_path, run_here, check_refused, way
):
    path = run / "classifier.keras"
    content = path.read_bytes()
    if way == "code":
        layers = [keras.Input((5,)), keras.layers.Lambda(lambda x: x[:, :3])]
        keras.Sequential(layers).save(path)
    elif way == "cut":
        path.write_bytes(content[:-100])
    elif way == "damaged":
        place = content.index(b"HDF") + 900
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    else:
        with zipfile.ZipFile(path, "a") as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the second file of this name
            archive.writestr("config.json", '{"class_name": "Strange", "config": {}}')
    before = sorted(run.rglob("*"))
    result = run_here("export.py", [f"run={run}"], tmp_path)
    check_refused(result, "error: Expected a", f"Received: {path}, ")
    for word in ("unsafe", "deserializ", "Keras 3", "safe_mode"):
        assert word not in result.stderr
    assert sorted(run.rglob("*")) == before
