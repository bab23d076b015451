"""Sweeps whose jobs run in other processes, by Hydra's launchers."""

import importlib.util
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

TRAIN = pathlib.Path(__file__).parents[2] / "scripts/train.py"
DATA = ["data=npz", "data.source=a.npz", "data.target=b.npz", "network=mlp", "compare=false"]
LENGTH = ["trainer.steps=600", "trainer.steps_per_epoch=100", "trainer.batch_size=32"]
LAUNCHERS = ["joblib", "submitit_local", "ray"]
TWO = {"joblib": ["hydra.launcher.n_jobs=2"]}


@pytest.fixture
def folder(tmp_path, with_features):
    return with_features(tmp_path)


def arguments_for(launcher):
    """Returns the arguments of a sweep by a launcher, if it is installed."""
    plugin = f"hydra_{launcher.partition('_')[0]}_launcher"
    found = importlib.util.find_spec("hydra_plugins")  # which exists with the first plugin
    if found is None or importlib.util.find_spec(f"hydra_plugins.{plugin}") is None:
        pytest.skip(f"{plugin} is not installed")
    return ["-m", f"hydra/launcher={launcher}", *TWO.get(launcher, [])]


def check_sweep(folder, launcher, run_apart):
    short = [*DATA, "debug=fast", "trainer.batch_size=32,100000", "hydra.sweep.dir=sweep"]
    result = run_apart("train.py", [*launcher, "seed=0,1", *short], folder)
    assert result.returncode == 1  # two jobs cannot fill a batch
    assert "regret of selection/agreement" in result.stdout
    assert result.stdout.count("not finished") == 2
    table = (folder / "sweep/sweep.csv").read_text()
    assert all(f",{run},seed={run // 2} data=npz" in table for run in range(4))
    assert not (folder / "sweep/.jobs").exists()

    # In a process of its own, since the scripts set what TensorFlow reads when it is imported.
    plain = run_apart("train.py", [*DATA, "debug=fast", "trainer.batch_size=32"], folder)
    assert plain.returncode == 0
    (metrics,) = folder.glob("runs/*/metrics.csv")
    assert metrics.read_text() == (folder / "sweep/0/metrics.csv").read_text()


def test_jobs_of_two_processes_are_ranked_as_those_of_one(folder, run_apart):
    check_sweep(folder, arguments_for("joblib"), run_apart)


@pytest.mark.slow
@pytest.mark.parametrize("launcher", LAUNCHERS[1:])
def test_jobs_of_other_launchers_are_ranked_as_those_of_one_process(folder, launcher, run_apart):
    check_sweep(folder, arguments_for(launcher), run_apart)


def processes_of(folder):
    """Returns the processes that work in a folder."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").resolve() == folder:
                found.append(int(entry.name))
        except OSError:  # it has ended
            continue
    return found


@pytest.mark.slow
@pytest.mark.skipif(not pathlib.Path("/proc/self/cwd").exists(), reason="It reads /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("launcher", ["joblib", "ray"])
def test_an_interrupted_sweep_leaves_no_process_and_resumes(
    folder, launcher, number, run_apart, cache
):
    arguments = [*arguments_for(launcher), "seed=0,1", *DATA, *LENGTH]
    command = [sys.executable, str(TRAIN), *arguments, "resume=true", "hydra.sweep.dir=sweep"]
    environment = {**os.environ, "DANN_CACHE_DIR": str(cache)}
    with (folder / "log").open("w") as log:
        first = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
        end = time.monotonic() + 120
        while len(list(folder.glob("sweep/*/checkpoints/step-*"))) < 2:
            assert time.monotonic() < end
            assert first.poll() is None
            time.sleep(0.1)
        first.send_signal(number)
        assert first.wait(60) != 0
    end = time.monotonic() + 180  # after SIGKILL, Ray's own processes take about a minute
    while processes_of(folder):
        assert time.monotonic() < end
        time.sleep(0.1)
    assert not list(folder.glob("sweep/*/summary.json"))  # it was interrupted before its end

    second = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert second.returncode == 0, second.stderr
    assert "regret of selection/agreement" in second.stdout
    plain = run_apart("train.py", [*DATA, *LENGTH, "hydra.run.dir=plain"], folder)
    assert plain.returncode == 0, plain.stderr
    metrics = (folder / "sweep/0/metrics.csv").read_text()
    assert metrics == (folder / "plain/metrics.csv").read_text()
    assert (folder / "sweep/1/summary.json").exists()
