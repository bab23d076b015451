"""Processes that train together, on JAX; here all run on one machine."""

import functools
import json
import os
import pathlib
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

SCRIPT = pathlib.Path(__file__).parents[1] / "support" / "train_together.py"
SOME_CASES = ["layers with state"]
ALL_CASES = ["mcd", "cdan_e", "layers with state", "averaged weights"]
SLOW = pytest.mark.slow


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """Function that starts the processes of a training; none survives the tests."""
    pytest.importorskip("jax")
    blocked = tmp_path_factory.mktemp("blocked")  # importing TensorFlow takes seconds
    (blocked / "tensorflow.py").write_text("raise ImportError('blocked')")
    folders = [blocked, SCRIPT.parent, SCRIPT.parents[1], SCRIPT.parents[2]]
    environment = {**os.environ, "KERAS_BACKEND": "jax"}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, folders))
    started = []

    def begin(folder, names, count, **deaths):
        folder.mkdir(exist_ok=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        for number in range(count):
            distribution = {"kind": "multi_host", "coordinator": f"127.0.0.1:{port}"}
            distribution |= {"num_processes": count, "process_id": number}
            arguments = [names, distribution if count > 1 else {}, deaths.get(f"process_{number}")]
            command = [sys.executable, str(SCRIPT), str(folder), *map(json.dumps, arguments)]
            process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
            started.append(process)
        return started[-count:]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def wait_for(processes):
    errors = [process.communicate(timeout=300)[1] for process in processes]
    assert not any(process.returncode for process in processes), errors


def results(folder, number=0):
    with np.load(folder / f"weights_{number}.npz") as weights:
        return dict(weights), json.loads((folder / f"logs_{number}.json").read_text())


def assert_equal_results(folder, count, single, names):
    expected_weights, expected_logs = results(single)
    first_weights = results(folder)[0]
    for number in range(count):
        weights, logs = results(folder, number)
        for name in names:
            for key, values in expected_logs[name].items():
                assert logs[name][key] == pytest.approx(values, rel=1e-6, abs=1e-6), (name, key)
            np.testing.assert_allclose(weights[name], expected_weights[name], 1e-5, 1e-6)
            np.testing.assert_array_equal(weights[name], first_weights[name])


@pytest.fixture(scope="module")
def single(together, tmp_path_factory):
    """Function that trains in one process and returns the folder of the results."""

    def train(*names):
        folder = tmp_path_factory.mktemp("single")
        wait_for(together(folder, names, 1))
        return folder

    return functools.cache(train)


@pytest.mark.parametrize(
    ("count", "names"), [(2, SOME_CASES), *(pytest.param(n, ALL_CASES, marks=SLOW) for n in (2, 4))]
)
def test_several_processes_train_like_one(together, single, tmp_path, count, names):
    wait_for(together(tmp_path, names, count))
    assert_equal_results(tmp_path, count, single(*names), names)


@pytest.mark.slow
@pytest.mark.parametrize("last", [0, 1])
def test_killed_process_ends_the_other_and_both_resume(last, together, single, tmp_path):
    """The process is killed in the second epoch, so that there is a checkpoint."""
    processes = together(tmp_path, SOME_CASES[:1], 2, **{f"process_{1 - last}": 4})
    processes[1 - last].wait(timeout=300)
    start = time.monotonic()
    processes[last].communicate(timeout=120)
    assert time.monotonic() - start < 120
    assert processes[last].returncode
    wait_for(together(tmp_path, SOME_CASES[:1], 2))
    assert_equal_results(tmp_path, 2, single(*SOME_CASES), SOME_CASES[:1])
