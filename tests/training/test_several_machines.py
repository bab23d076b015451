"""Processes that train together, on JAX and here all on one machine."""

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
FEW = ["layers with state"]
ALL = ["mcd", "cdan_e", "layers with state", "averaged weights"]


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """Starts the processes of a training and returns them; none survives the tests."""
    pytest.importorskip("jax")
    blocked = tmp_path_factory.mktemp("blocked")  # TensorFlow takes seconds to import
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


def ended(processes):
    """What was said on standard error, where all ended well."""
    said = [process.communicate(timeout=300)[1] for process in processes]
    assert not any(process.returncode for process in processes), said
    return said


def results(folder, number=0):
    with np.load(folder / f"weights_{number}.npz") as weights:
        return dict(weights), json.loads((folder / f"logs_{number}.json").read_text())


def assert_alike(folder, count, alone, names):
    expected, its = results(alone)
    weights = results(folder)[0]
    for number in range(count):
        found, logs = results(folder, number)
        for name in names:
            for key, values in its[name].items():
                assert logs[name][key] == pytest.approx(values, rel=1e-6, abs=1e-6), (name, key)
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(found[name], weights[name])


@pytest.fixture(scope="module")
def alone(together, tmp_path_factory):
    """The folder of what one process gets of trainings by these names."""

    def train(*names):
        folder = tmp_path_factory.mktemp("alone")
        ended(together(folder, names, 1))
        return folder

    return functools.cache(train)


@pytest.mark.parametrize(
    ("count", "names"), [(2, FEW), *(pytest.param(n, ALL, marks=pytest.mark.slow) for n in (2, 4))]
)
def test_several_processes_descend_what_one_does(together, alone, tmp_path, count, names):
    ended(together(tmp_path, names, count))
    assert_alike(tmp_path, count, alone(*names), names)


@pytest.mark.slow
@pytest.mark.parametrize("last", [0, 1])
def test_a_killed_process_ends_the_other_and_both_go_on(last, together, alone, tmp_path):
    """In the second epoch, so that there is a checkpoint to go on from."""
    both = together(tmp_path, FEW[:1], 2, **{f"process_{1 - last}": 4})
    both[1 - last].wait(timeout=300)
    began = time.monotonic()
    said = both[last].communicate(timeout=120)[1]
    assert time.monotonic() - began < 120
    assert both[last].returncode
    if last == 0:
        assert "a process that has ended" in said
    ended(together(tmp_path, FEW[:1], 2))
    assert_alike(tmp_path, 2, alone(*FEW), FEW[:1])
