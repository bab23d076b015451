"""Golden values: batches, names, and the files of a run.

`python tests/test_golden.py` regenerates `tests/golden/` from the current code. A change that
alters a value on purpose regenerates it, and its commit message explains what changed and why.
"""

import inspect
import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

import dann
from dann.adaptation.adversarial_model import METHODS
from dann.adaptation.regularizers.regularizer import REGULARIZERS

pytestmark = pytest.mark.tensorflow

GOLDEN = pathlib.Path(__file__).parent / "golden"
TRAIN = GOLDEN.parents[1] / "scripts/train.py"
KINDS = sorted({*METHODS.values(), *REGULARIZERS.values()}, key=lambda kind: kind.__name__)
SETTINGS = ["compare=false", "trainer.steps=4", "trainer.steps_per_epoch=2", "hydra.run.dir=run"]


def sketch(values):
    """Returns the values or, if there are more than 20, their products with random directions."""
    if len(values) <= 20:
        return values
    directions = np.random.default_rng(len(values)).normal(size=(6, len(values)))
    return directions @ values / np.sqrt(len(values))


def batch_values():
    x = np.arange(50, dtype="float32")[:, None]
    y, target = np.arange(50) % 3 // 2, 100 + np.arange(37, dtype="float32")[:, None]
    settings = {"plain": {}, "balanced": {"balanced": True}, "in_order": {"shuffle": False}}
    settings["second_of_two"] = {"process_id": 1, "num_processes": 2}
    values = {}
    for name, arguments in settings.items():
        pairs = dann.data.pair((x, y), target, 8, seed=5, **arguments)
        pairs.start = 3
        for domain in ("source", "target"):
            batches = [np.ravel(pairs[step][0][domain]) for step in range(6)]
            values[f"batches/{name}/{domain}"] = np.stack(batches).astype("uint8")
    return values


def run_values(folder):
    """Returns the weights after 4 steps of the default run, which must not retrace functions."""
    command = [sys.executable, TRAIN, *SETTINGS]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    assert process.returncode == 0, process.stderr
    assert "retracing" not in process.stdout + process.stderr
    model = keras.models.load_model(folder / "run" / "classifier.keras")
    return {f"run/{n}": sketch(values.ravel()) for n, values in enumerate(model.get_weights())}


def run_names(folder):
    run = folder / "run"
    paths = [path.relative_to(run) for path in run.rglob("*") if path.is_file()]
    files = [str(path) for path in paths if path.parts[0] != "checkpoints"]
    return {
        "summary": sorted(json.loads((run / "summary.json").read_text())),
        "files": sorted(name for name in files if "tfevents" not in name),
        "metrics": (run / "metrics.csv").read_text().splitlines()[0].split(","),
        "dann": sorted(name for name in dir(dann) if not name.startswith("_")),
        "defaults": {kind.__name__: list_defaults(kind) for kind in KINDS},
    }


def list_defaults(kind):
    parameters = inspect.signature(kind).parameters.values()
    return {p.name: repr(p.default) for p in parameters if p.default is not p.empty}


def images(model):
    return np.random.default_rng(2).normal(size=(16, *model.input_shape[1:])).astype("float32")


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN / "values.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("golden")


def check(values, golden, kind, rtol=2e-4, atol=1e-5):
    expected = {name: value for name, value in golden.items() if name.startswith(f"{kind}/")}
    assert expected
    for name, value in expected.items():  # newer values have tests of their own
        np.testing.assert_allclose(values[name], value, rtol, atol, err_msg=name)


def test_batches(golden):
    check(batch_values(), golden, "batches", 0, 0)


@pytest.mark.slow
def test_default_run_and_its_files(golden, run_folder):
    # Processors round differently, and each step amplifies the differences.
    check(run_values(run_folder), golden, "run", 1e-3, 1e-4)
    names, expected = run_names(run_folder), json.loads((GOLDEN / "names.json").read_text())
    assert set(expected.pop("dann")) <= set(names.pop("dann"))  # new names are allowed
    assert names == expected


def test_earlier_files_load(golden):
    model = keras.models.load_model(GOLDEN / "classifier.keras", safe_mode=True)
    x = images(model)
    np.testing.assert_allclose(model.predict(x, verbose=0), golden["files/logits"], 1e-4, 1e-5)
    packed = dann.deployment.load(GOLDEN / "packed.dann")
    np.testing.assert_allclose(packed.predict(x), golden["files/logits"], 1e-4, 1e-5)


if __name__ == "__main__":
    import tempfile

    from deployment.packable_networks import lenet, spread_statistics

    folder = pathlib.Path(tempfile.mkdtemp())
    values = batch_values() | run_values(folder)
    keras.utils.set_random_seed(0)
    model = spread_statistics(lenet())
    values["files/logits"] = model.predict(images(model), verbose=0)
    model.save(GOLDEN / "classifier.keras")
    dann.deployment.pack(model, GOLDEN / "packed.dann")
    np.savez_compressed(GOLDEN / "values.npz", **values)
    (GOLDEN / "names.json").write_text(json.dumps(run_names(folder), indent=1) + "\n")
