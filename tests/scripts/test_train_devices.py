"""`scripts/train.py` on several logical devices, each in a process of its own."""

import json
import os
import shutil
import subprocess
import sys

import pytest

TWO = ["distribution=data_parallel", "distribution.devices=2"]
SHARED = [*TWO, "distribution.model_parallel=2"]
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
    assert "devices 2 then, 1 now" in second.stderr
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
def test_a_run_goes_on_with_other_devices_that_share_the_weights(train, tmp_path):
    settings = [*QUICK, "optimizer.learning_rate=0.01", "schedule=constant", "resume=true"]
    settings += ["trainer.steps_per_epoch=2"]
    four = [TWO[0], "distribution.devices=4"]
    parts = [*four, "distribution.model_parallel=2"], [*four, "distribution.model_parallel=4"], TWO
    for steps, part in zip((4, 6, 8), parts, strict=True):
        done = train("jax", *settings, *part, f"trainer.steps={steps}")
        assert done.returncode == 0, done.stderr
        if steps == 6:
            assert "model_parallel 2 then, 4 now" in done.stderr
    assert "devices 4 then, 2 now; model_parallel 4 then, 1 now" in done.stderr
    shared = json.loads((tmp_path / "run" / "summary.json").read_text())
    shutil.rmtree(tmp_path / "run")
    done = train("jax", *settings, "trainer.steps=8")
    assert done.returncode == 0, done.stderr
    alone = json.loads((tmp_path / "run" / "summary.json").read_text())
    numbers = {k: v for k, v in alone.items() if isinstance(v, float) and "seconds" not in k}
    assert len(numbers) == 4
    assert {k: shared[k] for k in numbers} == pytest.approx(numbers, rel=1e-3, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "arguments", "told"),
    [
        ("tensorflow", [*TWO, "trainer.batch_size=15"], "multiple of 2. Received: batch_size=15"),
        ("jax", [*TWO, "trainer.batch_size=15"], "multiple of 2. Received: batch_size=15"),
        ("tensorflow", [*TWO, "trainer.jit_compile=true"], "Received: trainer.jit_compile=True"),
        ("tensorflow", SHARED, "Received: distribution.model_parallel=2 on tensorflow"),
        ("torch", SHARED, "Received: distribution=data_parallel on torch"),
        ("jax", [*SHARED, "distribution.devices=3"], "multiple of 2. Received: 3 devices"),
        ("torch", TWO, "Received: distribution=data_parallel on torch"),
        ("jax", ["distribution=data_parallel"], "Received: distribution.devices=all"),
    ],
)
def test_what_devices_cannot_do_is_told_in_one_line(train, tmp_path, backend, arguments, told):
    found = train(backend, "debug=fast", *arguments)
    assert found.returncode == 1
    assert found.stderr.startswith("error: ")
    assert found.stderr.count("\n") == 1
    assert told in found.stderr
    assert not (tmp_path / "run").exists()
