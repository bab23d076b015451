"""A step on several devices equals a step on one device."""

import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
from support.train_on_devices import CASES, PER_REPLICA, REFUSED

from dann.adaptation.replicas import check_optimizer
from dann.optimizers import PerVariable

SCRIPT = pathlib.Path(__file__).parents[1] / "support" / "train_on_devices.py"
FEW = ("sdat", "labeled target")
BACKENDS = [pytest.param("tensorflow", marks=pytest.mark.tensorflow), "jax"]


def train(backend, folder, counts, names):
    """Returns weights and logs by `case/number of devices`; 0 is without a distribution."""
    pytest.importorskip(backend)
    paths = [str(SCRIPT.parents[1]), str(SCRIPT.parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "KERAS_BACKEND": backend,
        "PYTHONPATH": os.pathsep.join(paths),
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    arguments = [str(folder), json.dumps(counts), json.dumps(list(names))]
    command = [sys.executable, str(SCRIPT), *arguments]
    process = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr[-4000:]
    logs = json.loads((folder / "logs.json").read_text())
    with np.load(folder / "weights.npz") as weights:
        return {key: (weights[key], logs[key]) for key in weights.files}


def assert_devices_agree(results, backend, counts, names):
    for name in names:
        if backend == "tensorflow" and name in PER_REPLICA:
            continue
        for count in counts:
            weights, logs = results[f"{name}/{count}"]
            expected, expected_logs = results[f"{name}/0"]
            case = f"{name} on {count} devices"
            np.testing.assert_allclose(weights, expected, rtol=1e-5, atol=1e-5, err_msg=case)
            actual_logs = {key: logs[key] for key in expected_logs}
            assert actual_logs == pytest.approx(expected_logs, rel=1e-3, abs=1e-3), case


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_devices_equal_one_device(tmp_path, backend):
    names = ["sdat", *sorted(REFUSED)] if backend == "jax" else FEW
    results = train(backend, tmp_path, [2], names)
    assert_devices_agree(results, backend, [2], names)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_method_on_any_number_of_devices(tmp_path, backend):
    counts = [1, 2, 3]
    names = [name for name in CASES if not (backend == "tensorflow" and name in REFUSED)]
    results = train(backend, tmp_path, counts, names)
    assert_devices_agree(results, backend, counts, names)
    if backend == "tensorflow":  # the table in the docs lists these
        different = {
            name for name in PER_REPLICA if not is_close(results[f"{name}/0"], results[f"{name}/2"])
        }
        assert different == PER_REPLICA


@pytest.mark.parametrize(
    "setting", [{"clipnorm": 0.1}, {"clipvalue": 0.1}, {"gradient_accumulation_steps": 2}]
)
def test_clipping_and_accumulation_are_refused_on_devices(setting):
    optimizer = keras.optimizers.SGD(0.1, **setting)
    nested = PerVariable({"kernel": optimizer}, default_optimizer=keras.optimizers.SGD(0.1))
    [(name, value)] = setting.items()
    scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1, **setting))
    for refused in (optimizer, nested, scaled):
        check_optimizer(refused, replicas=1)
        with pytest.raises(ValueError, match=f"Received: {name}={value} and 2 devices.*JAX"):
            check_optimizer(refused, replicas=2)
    check_optimizer(keras.optimizers.SGD(0.1), replicas=2)


def is_close(result, other_result):
    """Returns whether weights differ only by rounding; those of CDAN+E differ by about 1e-6."""
    return np.allclose(result[0], other_result[0], rtol=0, atol=3e-7)
