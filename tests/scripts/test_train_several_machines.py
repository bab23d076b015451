"""`scripts/train.py` in several processes, here all on one machine."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "train.py"
QUICK = ["debug=fast", "schedule=constant", "optimizer.learning_rate=0.01", "compare=false"]


@pytest.fixture
def train(cache, tmp_path):
    """Starts the processes of a run and returns them; none survives the test."""
    pytest.importorskip("jax")
    started = []
    blocked = tmp_path / "blocked"  # TensorFlow takes seconds to import
    blocked.mkdir()
    (blocked / "tensorflow.py").write_text("raise ImportError('blocked')")
    paths = os.pathsep.join([str(blocked), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "DANN_CACHE_DIR": str(cache), "KERAS_BACKEND": "jax"}
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment |= {"PYTHONPATH": paths, "TMPDIR": str(temporary)}

    def run(count, *arguments, of_last=()):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        common = [*arguments, "distribution=multi_host", f"distribution.coordinator={address}"]
        common += [f"distribution.num_processes={count}", f"hydra.run.dir={tmp_path / 'run'}"]
        for number in range(count):
            own = of_last if number == count - 1 else ()
            its = [*common, *own, f"distribution.process_id={number}"]
            command = [sys.executable, str(SCRIPT), *its]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            started.append(subprocess.Popen(command, env=environment, cwd=tmp_path, **pipes))
        return started[-count:]

    yield run
    for process in started:
        process.kill()
        process.communicate()


def finished(processes):
    said = [process.communicate(timeout=300) for process in processes]
    return [process.returncode for process in processes], said


@pytest.mark.slow
def test_a_run_of_two_processes_is_written_by_the_first_and_goes_on_alone(train, tmp_path):
    diagnosed = ["callbacks=diagnostics", "trainer.oracle_curve=true"]
    statuses, said = finished(train(2, *QUICK, *diagnosed))
    assert statuses == [0, 0], said
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["steps"] == 4
    assert {"selection/info_max", "target/accuracy"} <= summary.keys()
    assert "Written to" in said[0][0]
    assert "Written to" not in said[1][0]
    assert (tmp_path / "run" / "figures" / "features.png").is_file()
    statuses, said = finished(train(1, *QUICK, *diagnosed, "trainer.steps=6", "resume=true"))
    assert statuses == [0], said
    assert "devices 2 then, 1 now" in said[0][1]
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["steps"] == 6
    statuses, said = finished(train(2, *QUICK, *diagnosed, "trainer.steps=6", "resume=true"))
    assert statuses == [0, 0]
    assert "Finished already" in said[0][0]


@pytest.mark.slow
def test_a_signal_to_either_process_stops_both_with_a_checkpoint(train, tmp_path):
    endless = [*QUICK, "trainer.steps=100000", "trainer.steps_per_epoch=10", "selection=none"]
    checkpoints = tmp_path / "run" / "checkpoints"
    processes = train(2, *endless)
    await_step(checkpoints, 10, processes)
    processes[1].send_signal(signal.SIGTERM)
    statuses, said = finished(processes)
    assert statuses == [143, 143], said
    assert "Stopped after step" in said[0][0]
    assert "All processes stop: process 0: stopped by SIGTERM" in said[1][1]
    assert not (tmp_path / "run" / "summary.json").exists()


@pytest.mark.slow
def test_what_ends_process_0_is_told_by_all(train, tmp_path):
    broken = [*QUICK, "optimizer.learning_rate=1e30", "trainer.steps=100", "trainer.check_every=1"]
    statuses, said = finished(train(2, *broken, "selection=none"))
    assert statuses == [1, 1]
    assert "error: The training of DANN stopped at step" in said[0][1]
    assert "error: All processes stop: process 0: The training of DANN stopped" in said[1][1]
    assert "Traceback" not in said[0][1] + said[1][1]
    left = [path.name for path in (tmp_path / "temporary").iterdir()]
    assert [name for name in left if name.startswith("dann")] == []


def test_processes_with_different_settings_do_not_train(train, tmp_path):
    processes = train(2, *QUICK, of_last=["seed=1", "trainer.batch_size=32"])
    statuses, said = finished(processes)
    assert statuses == [1, 1], said
    told = (
        "Expected the same settings in all processes. Received, from process 0 and process 1: "
        "seed 0, 1; trainer.batch_size 16, 32"
    )
    assert said[0][1] == f"error: {told}\n"
    assert told in said[1][1]
    assert not (tmp_path / "run").exists()
    assert list((tmp_path / "temporary").iterdir()) == []


def test_what_fails_in_one_process_before_the_training_leaves_nothing(train, tmp_path):
    statuses, said = finished(train(2, *QUICK, of_last=["paths.cache_dir=/proc/none"]))
    assert statuses == [1, 1], said
    assert all(one.count("\n") == 1 and "/proc/none" in one for _, one in said), said
    assert not (tmp_path / "run").exists()
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.slow
def test_a_signal_while_the_first_waits_puts_the_config_back(train, tmp_path):
    assert finished(train(1, *QUICK))[0] == [0]
    config = tmp_path / "run" / ".hydra" / "config.yaml"
    before = config.read_text()
    first, second = train(2, *QUICK, "resume=true", "seed=7")
    second.kill()
    until = time.monotonic() + 60
    while config.read_text() == before and time.monotonic() < until:
        time.sleep(0.1)
    assert "seed: 7" in config.read_text()
    first.send_signal(signal.SIGTERM)
    assert finished([first])[0] == [143]
    assert config.read_text() == before


@pytest.mark.slow
def test_processes_with_different_folders_of_data_train(train, tmp_path):
    statuses, said = finished(train(2, *QUICK, of_last=[f"paths.data_dir={tmp_path}"]))
    assert statuses == [0, 0], said


def await_step(checkpoints, step, processes):
    until = time.monotonic() + 300
    while not any(int(one.name[5:]) >= step for one in checkpoints.glob("step-*[0-9]")):
        assert time.monotonic() < until
        assert all(process.poll() is None for process in processes), finished(processes)
        time.sleep(0.5)
