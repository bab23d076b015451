"""Processes that train together, on JAX and here all on one machine."""

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
FEW = ["layers with state", "labelled target"]
ALL = ["mcd", "cdan_e", "layers with state", "labelled target", "averaged weights"]


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """Starts the processes of a training and returns them; none survives the tests."""
    pytest.importorskip("jax")
    blocked = tmp_path_factory.mktemp("blocked")  # TensorFlow takes seconds to import
    (blocked / "tensorflow.py").write_text("raise ImportError('blocked')")
    folders = [blocked, SCRIPT.parent, SCRIPT.parents[1], SCRIPT.parents[2]]
    environment = {
        **os.environ,
        "KERAS_BACKEND": "jax",
        "PYTHONPATH": os.pathsep.join(map(str, folders)),
    }
    started = []

    def begin(folder, names, count, devices=None, **deaths):
        folder.mkdir(exist_ok=True)
        port = free_port()
        for number in range(count):
            distribution = {"kind": "multi_host", "coordinator": f"127.0.0.1:{port}"}
            distribution |= {"num_processes": count, "process_id": number, **(devices or {})}
            arguments = [names, distribution if count > 1 else {}, deaths.get(f"process_{number}")]
            command = [sys.executable, str(SCRIPT), str(folder), *map(json.dumps, arguments)]
            process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
            started.append(process)
        return started[-count:]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def ended(processes):
    """The exit statuses and what was said on standard error."""
    said = [process.communicate(timeout=300)[1] for process in processes]
    return [process.returncode for process in processes], said


def results(folder, number=0):
    with np.load(folder / f"weights_{number}.npz") as weights:
        return dict(weights), json.loads((folder / "logs.json").read_text())


def assert_alike(folder, count, alone, names):
    weights, logs = results(folder)
    expected, its = results(alone)
    for name in names:
        for key, values in its[name].items():
            assert logs[name][key] == pytest.approx(values, rel=1e-6, abs=1e-6), (name, key)
        np.testing.assert_allclose(weights[name], expected[name], rtol=1e-5, atol=1e-6)
        for number in range(1, count):
            np.testing.assert_array_equal(results(folder, number)[0][name], weights[name])


@pytest.fixture(scope="module")
def alone(together, tmp_path_factory):
    """The folder of what one process gets."""
    folder = tmp_path_factory.mktemp("alone")
    statuses, said = ended(together(folder, FEW, 1))
    assert statuses == [0], said
    return folder


def test_two_processes_descend_what_one_does(together, alone, tmp_path):
    statuses, said = ended(together(tmp_path, FEW, 2))
    assert statuses == [0, 0], said
    assert_alike(tmp_path, 2, alone, FEW)


@pytest.mark.parametrize(
    ("devices", "names"), [(2, FEW[:1]), pytest.param(4, FEW, marks=pytest.mark.slow)]
)
def test_devices_of_each_process_share_the_weights(together, alone, tmp_path, devices, names):
    groups = {"devices": devices, "model_parallel": 2}
    statuses, said = ended(together(tmp_path, names, 2, groups))
    assert statuses == [0, 0], said
    assert_alike(tmp_path, 2, alone, names)
    for number in range(2):
        split = json.loads((tmp_path / f"split_{number}.json").read_text())
        assert all(split[name] >= 2 for name in names)
    shared = results(tmp_path)[0]
    statuses, said = ended(together(tmp_path, names, 1))  # checkpoints are those of one device
    assert statuses == [0], said
    for name, weights in results(tmp_path)[0].items():
        np.testing.assert_array_equal(weights, shared[name])


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_several_processes_descend_what_one_does_by_every_kind_of_state(together, tmp_path, count):
    processes = together(tmp_path / "alone", ALL, 1), together(tmp_path / "shared", ALL, count)
    for statuses, said in map(ended, processes):
        assert not any(statuses), said
    assert_alike(tmp_path / "shared", count, tmp_path / "alone", ALL)


def test_a_killed_process_ends_the_other_which_goes_on_alone(together, alone, tmp_path):
    first, second = together(tmp_path, FEW[:1], 2, process_1=4)
    second.wait(timeout=300)
    began = time.monotonic()
    assert_stopped([first], "All processes stop: process 1")
    assert time.monotonic() - began < 30
    assert_goes_on(together, alone, tmp_path, "2 then, 1 now", 1)


@pytest.mark.slow
def test_three_of_four_processes_go_on_after_one_was_killed(together, alone, tmp_path):
    *others, last = together(tmp_path, FEW[:1], 4, process_3=4)
    last.wait(timeout=300)
    began = time.monotonic()
    assert_stopped(others, "All processes stop: process 3")
    assert time.monotonic() - began < 30
    assert_goes_on(together, alone, tmp_path, "4 then, 3 now", 3)


@pytest.mark.slow
def test_the_end_of_process_0_ends_the_others(together, tmp_path):
    first, *others = together(tmp_path, FEW[:1], 3, process_0=4)
    first.wait(timeout=300)
    began = time.monotonic()
    assert_stopped(others, "All processes stop: process 0")
    assert time.monotonic() - began < 30


def assert_stopped(processes, reason):
    statuses, said = ended(processes)
    assert set(statuses) == {1}
    for lines in said:
        assert lines.count("error: ") == 1
        assert reason in lines
        assert "Traceback" not in lines


def assert_goes_on(together, alone, folder, devices, count):
    statuses, said = ended(together(folder, FEW[:1], count))
    assert not any(statuses), said
    assert f"devices {devices}" in said[0]
    assert_alike(folder, count, alone, FEW[:1])
