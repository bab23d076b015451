"""`scripts/train.py` on several logical devices and in several processes of one machine."""

import json
import socket

import pytest

QUICK = ["debug=fast", "selection=none", "schedule=constant", "optimizer.learning_rate=0.01"]


@pytest.fixture
def train(run_apart, tmp_path):
    def run(backend, *arguments):
        pytest.importorskip(backend)
        arguments = [*arguments, f"hydra.run.dir={tmp_path / 'run'}"]
        return run_apart("train.py", arguments, tmp_path, KERAS_BACKEND=backend)

    return run


@pytest.fixture
def processes(begin, tmp_path):
    """Runs the processes of a training, and returns their statuses and outputs."""
    pytest.importorskip("jax")

    def run(count, *arguments):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        common = [*arguments, "distribution=multi_host", f"distribution.coordinator={address}"]
        common += [f"distribution.num_processes={count}", f"hydra.run.dir={tmp_path / 'run'}"]
        backend = {"KERAS_BACKEND": "jax", "TMPDIR": str(tmp_path)}
        started = [
            begin("train.py", [*common, f"distribution.process_id={i}"], tmp_path, **backend)
            for i in range(count)
        ]
        outputs = [process.communicate(timeout=300) for process in started]
        return [process.returncode for process in started], outputs

    return run


@pytest.mark.slow
def test_first_of_two_processes_writes_the_run(processes, tmp_path):
    settings = [*QUICK[:1], *QUICK[2:], "compare=false", "trainer.oracle_curve=true"]
    statuses, outputs = processes(2, *settings)
    assert statuses == [0, 0], outputs
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["steps"] == 4
    assert {"selection/info_max", "target/accuracy"} <= summary.keys()
    assert "Written to" in outputs[0][0]
    assert "Written to" not in outputs[1][0]
    assert list(tmp_path.glob("tmp*/checkpoints")) == []  # of the second process
    assert (tmp_path / "run" / "figures" / "features.png").is_file()
    for count, steps in ((1, 6), (2, 8)):
        statuses, outputs = processes(count, *settings, f"trainer.steps={steps}", "resume=true")
        assert not any(statuses), outputs
        assert json.loads((tmp_path / "run" / "summary.json").read_text())["steps"] == steps
        assert len((tmp_path / "run" / "oracle.csv").read_text().splitlines()) == steps // 2 + 1
