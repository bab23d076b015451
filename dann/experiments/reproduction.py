"""Experiments over methods and seeds: which runs they need, and how those that lack are trained."""

import hashlib
import os
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from dann.training.run_directory import RunDirectory, quote

_BASELINES = ("source_only", "target_only")


class PlannedRun(NamedTuple):
    """A run of an experiment.

    Attributes:
        experiment: Name of the experiment.
        method: Name of the method, with arguments of its own, as in `"mdd schedule=mdd"`.
        seed: Seed.
        arguments: Arguments of `scripts/train.py` that make the run.
        directory: Where it is written.
    """

    experiment: str
    method: str
    seed: int
    arguments: tuple[str, ...]
    directory: RunDirectory


def plan_runs(settings: Any) -> list[PlannedRun]:
    """Returns a run for each experiment, method and seed.

    The baselines `source_only` and `target_only`, which take no regularizers, run without the
    experiment's and those of `overrides`.

    Args:
        settings: Object with `experiments`, `methods`, `seeds`, `overrides` and `runs_dir`;
            `conf/reproduce.yaml` has them.
    """
    return [
        _planned(settings, experiment, method, seed)
        for experiment in settings.experiments
        for method in settings.methods
        for seed in settings.seeds
    ]


def train_runs(
    runs: Sequence[PlannedRun], script: pathlib.Path, shared: Sequence[str] = (), jobs: int = 1
) -> list[PlannedRun]:
    """Trains runs in processes of their own, so that a failure stops no other.

    A run that was stopped goes on after its last whole epoch. What a run prints goes to `log.txt`
    in its directory. An interruption ends the runs in progress.

    Args:
        runs: The runs.
        script: The training script.
        shared: More arguments for every run, on which its results do not depend.
        jobs: How many run at a time, and share the cores.

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
                running[_started(run, script, shared, jobs)] = run
            time.sleep(0.1)
            for process in [one for one in running if one.poll() is not None]:
                run = running.pop(process)
                if process.returncode != 0:
                    failed.append(run)
    finally:
        for process in running:
            process.terminate()
    return failed


def _planned(settings, experiment, method, seed):
    name, *own = method.split()
    overrides = list(settings.overrides)
    if name in _BASELINES and not any(map(_of_regularizers, own)):
        own.append("regularizer=none")
        overrides = [one for one in overrides if not _of_regularizers(one)]
    arguments = [f"experiment={experiment}", f"method={name}", *own, "compare=false", *overrides]
    folder = _folder(" ".join([method, *settings.overrides]))
    directory = pathlib.Path(settings.runs_dir) / experiment / folder / f"seed_{seed}"
    return PlannedRun(
        experiment, method, seed, (*arguments, f"seed={seed}"), RunDirectory(directory)
    )


def _folder(text):
    """A name of a folder for a method with its arguments; that of a long text ends in a digest."""
    plain = re.sub(r"[^\w.-]+", "_", text)
    if len(plain) <= 100:
        return plain
    return f"{plain[:90]}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _of_regularizers(argument):
    return argument.startswith(("regularizer=", "regularizers."))


def _started(run, script, shared, jobs):
    run.directory.path.mkdir(parents=True, exist_ok=True)
    arguments = [*run.arguments, *shared, f"hydra.run.dir={quote(run.directory)}", "resume=true"]
    environment = dict(os.environ)
    environment.pop("HYDRA_FULL_ERROR", None)  # which this script has set for itself
    if jobs > 1:
        threads = str(max(1, (os.cpu_count() or 1) // jobs))
        for name in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"):
            environment.setdefault(name, threads)
    with run.directory.log_file.open("a") as log:
        command = [sys.executable, str(script), *arguments]
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
