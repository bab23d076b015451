"""`scripts/train.py` in several processes, here all on one machine."""

import json
import os
import pathlib
import socket
import subprocess
import sys

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

    def run(count, *arguments):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        common = [*arguments, "distribution=multi_host", f"distribution.coordinator={address}"]
        common += [f"distribution.num_processes={count}", f"hydra.run.dir={tmp_path / 'run'}"]
        for number in range(count):
            its = [*common, f"distribution.process_id={number}"]
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
    curve = "trainer.oracle_curve=true"
    statuses, said = finished(train(2, *QUICK, curve))
    assert statuses == [0, 0], said
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["steps"] == 4
    assert {"selection/info_max", "target/accuracy"} <= summary.keys()
    assert "Written to" in said[0][0]
    assert said[1][0] == ""
    assert (tmp_path / "run" / "figures" / "features.png").is_file()
    for count, steps in ((1, 6), (2, 8), (2, 8)):
        arguments = [*QUICK, curve, f"trainer.steps={steps}", "resume=true"]
        statuses, said = finished(train(count, *arguments))
        assert not any(statuses), said
        assert json.loads((tmp_path / "run" / "summary.json").read_text())["steps"] == steps
        assert len((tmp_path / "run" / "oracle.csv").read_text().splitlines()) == steps // 2 + 1
