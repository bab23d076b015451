"""Plans the runs of experiments over methods and seeds, and trains them in processes."""

import hashlib
import os
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from dann.training.overrides import quote
from dann.training.run_directory import RunDirectory

_BASELINES = ("source_only", "target_only")


class PlannedRun(NamedTuple):
    """One run of an experiment.

    Attributes:
        experiment: Name of the experiment.
        method: Name of the method, perhaps with arguments, as in `"mdd schedule=mdd"`.
        seed: Seed.
        arguments: Arguments of `scripts/train.py`.
        directory: Run directory.
    """

    experiment: str
    method: str
    seed: int
    arguments: tuple[str, ...]
    directory: RunDirectory


def plan_runs(settings: Any) -> list[PlannedRun]:
    """Returns one run per experiment, method and seed.

    The baselines `source_only` and `target_only` take no regularizers, so they run without the
    regularizers of the experiment and of `overrides`.

    Args:
        settings: Object with `experiments`, `methods`, `seeds`, `overrides` and `runs_dir`, as in
            `conf/reproduce.yaml`.
    """
    return [
        _plan_run(settings, experiment, method, seed)
        for experiment in settings.experiments
        for method in settings.methods
        for seed in settings.seeds
    ]


def train_runs(
    runs: Sequence[PlannedRun], script: pathlib.Path, shared: Sequence[str] = (), jobs: int = 1
) -> list[PlannedRun]:
    """Trains runs in separate processes, so that a failure does not stop other runs.

    A run that was stopped resumes after its last complete epoch. The output of a run goes to
    `log.txt` in its directory. An interruption ends the running processes.

    Args:
        runs: The runs.
        script: The training script.
        shared: Additional arguments for every run that do not change its results.
        jobs: Number of runs at a time. They share the cores.

    Returns:
        The runs that failed.
    """
    waiting, failed = list(runs), []
    running: dict[subprocess.Popen, PlannedRun] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                run = waiting.pop(0)
                print(f"{run.experiment} {run.method} seed={run.seed}: {run.directory}", flush=True)
                running[_start(run, script, shared, jobs)] = run
            time.sleep(0.1)
            for process in [process for process in running if process.poll() is not None]:
                run = running.pop(process)
                if process.returncode != 0:
                    failed.append(run)
    finally:
        for process in running:
            process.terminate()
    return failed


def _plan_run(settings, experiment, method, seed):
    name, *arguments = method.split()
    overrides = list(settings.overrides)
    if name in _BASELINES and not any(map(_sets_regularizer, arguments)):
        arguments.append("regularizer=none")
        overrides = [override for override in overrides if not _sets_regularizer(override)]
    arguments = [f"experiment={experiment}", f"method={name}", *arguments, "compare=false"]
    folder = _make_folder_name(" ".join([method, *settings.overrides]))
    directory = pathlib.Path(settings.runs_dir) / experiment / folder / f"seed_{seed}"
    arguments = (*arguments, *overrides, f"seed={seed}")
    return PlannedRun(experiment, method, seed, arguments, RunDirectory(directory))


def _make_folder_name(text):
    """Returns a folder name for a method with its arguments. A long name ends in a digest."""
    name = re.sub(r"[^\w.-]+", "_", text)
    if len(name) <= 100:
        return name
    return f"{name[:90]}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _sets_regularizer(argument):
    return argument.startswith(("regularizer=", "regularizers."))


def _start(run, script, shared, jobs):
    run.directory.path.mkdir(parents=True, exist_ok=True)
    arguments = [*run.arguments, *shared, f"hydra.run.dir={quote(run.directory)}", "resume=true"]
    environment = dict(os.environ)
    environment.pop("HYDRA_FULL_ERROR", None)  # this script has set it for itself
    if jobs > 1:  # otherwise, each process would start one thread per core
        threads = str(max(1, (os.cpu_count() or 1) // jobs))
        for name in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"):
            environment.setdefault(name, threads)
    with run.directory.log_file.open("a") as log:
        command = [sys.executable, str(script), *arguments]
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
