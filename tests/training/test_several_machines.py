"""Processes that train together, on JAX; here all run on one machine."""

import itertools
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

TESTS = pathlib.Path(__file__).parents[1]
ALL_CASES = ["mcd", "cdan_e", "layers with state", "averaged weights"]
SLOW = pytest.mark.slow


@pytest.fixture(scope="module")
def together(tmp_path_factory):
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
def test_several_processes_train_like_one(together, tmp_path, count, names, killed):
    """A process that is killed ends the other, and both resume from the first checkpoint."""
    (expected,) = run(together(tmp_path / "single", names, 1))
    if killed is not None:
        processes = together(tmp_path, names, count, killed)
        assert processes[killed].wait(timeout=300) == -signal.SIGKILL
        processes[1 - killed].communicate(timeout=120)
        assert processes[1 - killed].returncode
    results = run(together(tmp_path, names, count))
    for result, name in itertools.product(results, names):
        weights, logs = result[name]
        expected_weights, expected_logs = expected[name]
        for key, values in expected_logs.items():
            assert logs[key] == pytest.approx(values, rel=1e-6, abs=1e-6), (name, key)
        np.testing.assert_allclose(weights, expected_weights, 1e-5, 1e-6)
        assert weights == results[0][name][0]
