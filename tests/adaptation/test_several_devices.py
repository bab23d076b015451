"""A step on several devices, or in several processes on JAX, equals a step on one device."""

import itertools
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest
from support.train_on_devices import CASES, PER_REPLICA, REFUSED

from dann.adaptation.replicas import check_optimizer
from dann.optimizers import PerVariable

TESTS = pathlib.Path(__file__).parents[1]


def train(backend, counts, names):
    """Returns weights and logs by `case/number of devices`; 0 is without a distribution."""
    pytest.importorskip(backend)
    arguments = map(json.dumps, (counts, names))
    command = [sys.executable, "-m", "support.train_on_devices", "devices", *arguments]
    environment = {**os.environ, "KERAS_BACKEND": backend}
    process = subprocess.run(command, env=environment, cwd=TESTS, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr[-4000:]
    return json.loads(process.stdout.splitlines()[-1])


TENSORFLOW, SLOW = pytest.mark.tensorflow, pytest.mark.slow


@pytest.mark.parametrize(
    ("backend", "counts", "names"),
    [
        pytest.param("tensorflow", [2], ["sdat", "labeled target"], marks=TENSORFLOW),
        ("jax", [2], ["sdat", *sorted(REFUSED)]),
        pytest.param("tensorflow", [1, 2, 3], sorted({*CASES} - REFUSED), marks=[TENSORFLOW, SLOW]),
        pytest.param("jax", [1, 2, 3], sorted(CASES), marks=SLOW),
    ],
    ids=["tensorflow", "jax", "tensorflow, all cases", "jax, all cases"],
)
def test_several_devices_equal_one_device(backend, counts, names):
    results = train(backend, counts, names)
    different = set()
    for name, count in itertools.product(names, counts):
        (weights, logs), (expected, expected_logs) = (results[f"{name}/{n}"] for n in (count, 0))
        if backend == "tensorflow" and name in PER_REPLICA:
            # Rounding changes the weights of CDAN+E by about 1e-6.
            if count == 2 and not np.allclose(weights, expected, rtol=0, atol=3e-7):
                different.add(name)
            continue
        case = f"{name} on {count} devices"
        np.testing.assert_allclose(weights, expected, rtol=1e-5, atol=1e-5, err_msg=case)
        actual_logs = {key: logs[key] for key in expected_logs}
        assert actual_logs == pytest.approx(expected_logs, rel=1e-3, abs=1e-3), case
    if backend == "tensorflow":  # the table in the docs lists these
        assert different == PER_REPLICA & set(names)


SETTINGS = {"clipnorm": 0.1, "clipvalue": 0.1, "gradient_accumulation_steps": 2}


@pytest.mark.parametrize(("name", "value"), SETTINGS.items())
def test_clipping_and_accumulation_are_refused_on_devices(name, value):
    optimizer, inner = (keras.optimizers.SGD(0.1, **{name: value}) for _ in range(2))
    nested = PerVariable({"kernel": optimizer}, default_optimizer=keras.optimizers.SGD(0.1))
    scaled = keras.optimizers.LossScaleOptimizer(inner)
    for refused in (optimizer, nested, scaled):
        check_optimizer(refused, replicas=1)
        with pytest.raises(ValueError, match=f"Received: {name}={value} and 2 devices.*JAX"):
            check_optimizer(refused, replicas=2)
    check_optimizer(keras.optimizers.SGD(0.1), replicas=2)


ALL_CASES = ["mcd", "cdan_e", "layers with state", "averaged weights"]


@pytest.fixture(scope="module")
def start_processes(tmp_path_factory):
    """Function that starts the processes of a training; none survives the tests."""
    pytest.importorskip("jax")
    blocked = tmp_path_factory.mktemp("blocked")  # importing TensorFlow takes seconds
    (blocked / "tensorflow.py").write_text("raise ImportError('blocked')")
    paths = os.pathsep.join([str(blocked), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": paths}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": TESTS}
    started = []

    def begin(folder, names, count, killed=None):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        for number in range(count):
            distribution = {"kind": "multi_host", "coordinator": f"127.0.0.1:{port}"}
            distribution |= {"num_processes": count, "process_id": number}
            steps_to_death = 4 if number == killed else None  # in the second epoch
            arguments = str(folder), names, distribution if count > 1 else {}, steps_to_death
            command = [sys.executable, "-m", "support.train_on_devices", "machines"]
            command += map(json.dumps, arguments)
            started.append(subprocess.Popen(command, env=environment, **options))
        return started[-count:]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def run(processes):
    # A process that prints more than fits into its pipe blocks until somebody reads.
    with ThreadPoolExecutor() as pool:
        outputs = list(pool.map(lambda process: process.communicate(timeout=300), processes))
    assert not any(process.returncode for process in processes), outputs
    return [json.loads(output.splitlines()[-1]) for output, _ in outputs]


@pytest.mark.parametrize(
    ("count", "names", "killed"),
    [
        (2, ["layers with state"], None),
        *(pytest.param(count, ALL_CASES, None, marks=SLOW) for count in (2, 4)),
        *(pytest.param(2, ["layers with state"], number, marks=SLOW) for number in (0, 1)),
    ],
)
def test_several_processes_train_like_one(start_processes, tmp_path, count, names, killed):
    """A process that is killed ends the other, and both resume from the first checkpoint."""
    (expected,) = run(start_processes(tmp_path / "single", names, 1))
    if killed is not None:
        processes = start_processes(tmp_path, names, count, killed)
        assert processes[killed].wait(timeout=300) == -signal.SIGKILL
        processes[1 - killed].communicate(timeout=120)
        assert processes[1 - killed].returncode
    results = run(start_processes(tmp_path, names, count))
    for result, name in itertools.product(results, names):
        (weights, logs), (expected_weights, expected_logs) = result[name], expected[name]
        for key, values in expected_logs.items():
            assert logs[key] == pytest.approx(values, rel=1e-6, abs=1e-6), (name, key)
        np.testing.assert_allclose(weights, expected_weights, 1e-5, 1e-6)
        assert weights == results[0][name][0]
