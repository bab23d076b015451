"""`scripts/train.py` on several logical devices, each in a process of its own."""

import json
import os
import subprocess
import sys

import pytest

TWO = ["distribution=data_parallel", "distribution.devices=2"]
QUICK = ["debug=fast", "selection=none", "callbacks=diagnostics"]
BACKENDS = [pytest.param("tensorflow", marks=pytest.mark.tensorflow), "jax"]


@pytest.fixture
def train(run_apart, tmp_path, monkeypatch):
    def run(backend, *arguments):
        pytest.importorskip(backend)
        monkeypatch.setenv("KERAS_BACKEND", backend)
        return run_apart("train.py", [*arguments, f"hydra.run.dir={tmp_path / 'run'}"], tmp_path)

    return run


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_run_trains_on_two_devices_and_goes_on_with_one(train, tmp_path, backend):
    first = train(backend, *QUICK, *TWO, "schedule=constant", "optimizer.learning_rate=0.01")
    assert first.returncode == 0, first.stderr
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["steps"] == 4
    longer = [*QUICK, "schedule=constant", "optimizer.learning_rate=0.01", "trainer.steps=6"]
    second = train(backend, *longer, "resume=true")
    assert second.returncode == 0, second.stderr
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["steps"] == 6


@pytest.mark.slow
def test_devices_do_not_wait_for_each_other_forever_on_a_busy_machine(train):
    """With as many threads as cores, XLA aborts after 40 s."""
    code = "while True: pass"
    busy = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(os.cpu_count() + 1)]
    try:
        done = train("jax", *QUICK, *TWO, "augmentation=affine", "network=cnn")
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "arguments", "told"),
    [
        ("tensorflow", [*TWO, "trainer.batch_size=15"], "multiple of 2. Received: batch_size=15"),
        ("jax", [*TWO, "trainer.batch_size=15"], "multiple of 2. Received: batch_size=15"),
        ("tensorflow", [*TWO, "trainer.jit_compile=true"], "Received: trainer.jit_compile=True"),
        ("torch", TWO, "needs JAX: set KERAS_BACKEND=jax"),
    ],
)
def test_what_devices_cannot_do_is_told_in_one_line(train, tmp_path, backend, arguments, told):
    found = train(backend, "debug=fast", *arguments)
    assert found.returncode == 1
    assert found.stderr.startswith("error: ")
    assert found.stderr.count("\n") == 1
    assert told in found.stderr
    assert not (tmp_path / "run").exists()
