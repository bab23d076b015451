"""Plans the runs of experiments over methods and seeds, trains them and collects results."""

import hashlib
import itertools
import math
import os
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas

from dann.experiments.rows import read_agreement, read_predictions
from dann.training.evaluate_run import tabulate_regret
from dann.training.overrides import quote
from dann.training.run_directory import RunDirectory

COLUMNS = ["experiment", "method", "seed", "domains", "steps", "hardware"]
_MEASURES = "source/", "target/", "seconds", "cpu_seconds"  # beginnings of keys of a summary
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
    runs = []
    for experiment, method in itertools.product(settings.experiments, settings.methods):
        name, *arguments = method.split()
        overrides = list(settings.overrides)
        if name in _BASELINES and not any(map(_sets_regularizer, arguments)):
            arguments.append("regularizer=none")
            overrides = [override for override in overrides if not _sets_regularizer(override)]
        arguments = [f"experiment={experiment}", f"method={name}", *arguments, "compare=false"]
        text = " ".join([method, *settings.overrides])
        folder = re.sub(r"[^\w.-]+", "_", text)
        if len(folder) > 100:  # file systems limit the length of a name
            folder = f"{folder[:90]}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"
        for seed in settings.seeds:
            path = pathlib.Path(settings.runs_dir) / experiment / folder / f"seed_{seed}"
            seed_arguments = (*arguments, *overrides, f"seed={seed}")
            runs.append(PlannedRun(experiment, method, seed, seed_arguments, RunDirectory(path)))
    return runs


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


def collect_results(runs: Sequence[PlannedRun]) -> pandas.DataFrame:
    """Reads the results of finished runs into one table.

    The measures are:

    - `source/accuracy`, `target/accuracy`, `source/balanced_accuracy` and
      `target/balanced_accuracy` on the test sets, in [0, 1], or errors in regression, with the
      final weights
    - `seconds` and `cpu_seconds` of the training
    - `selection/<score>`: the label-free scores of the final weights, and `selection/agreement`
      between the seeds of a method
    - for runs with an oracle curve, `oracle/best`, the best target accuracy of all epochs, and
      `chosen/<score>`, the target accuracy of the epoch with the best score

    Target accuracies need target labels, so nothing is chosen by them.

    Args:
        runs: Finished runs.

    Returns:
        A frame with one row per run, the columns `experiment`, `method`, `seed`, `domains`, `steps`
        and `hardware`, and one column per measure.
    """
    seeds = {run.directory.path: ((run.experiment, run.method), run.seed) for run in runs}
    agreements = read_agreement(seeds, read_predictions(seeds))
    rows = []
    for run in runs:
        summary = run.directory.summary()
        backend = summary.get("backend", "tensorflow")
        hardware = summary["hardware"] + ("" if backend == "tensorflow" else f", {backend}")
        domains = f"{summary['source']} → {summary['target']}"
        values = run.experiment, run.method, run.seed, domains, summary["steps"], hardware
        measures = {key: summary[key] for key in summary if key.startswith(_MEASURES)}
        for name, value in summary.items():
            # A diverged run has scores of -inf, which a mean cannot include.
            if name.startswith("selection/") and math.isfinite(value):
                measures[name] = value
        measures |= _measure_oracle(run)
        if run.directory.path in agreements:
            measures["selection/agreement"] = agreements[run.directory.path]
        rows.append(dict(zip(COLUMNS, values, strict=True)) | measures)
    # Six digits, so that the file does not change with the last bits.
    return pandas.DataFrame(rows, columns=None if rows else COLUMNS).round(6)


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


def _measure_oracle(run):
    """Returns the target accuracies of the epochs that scores choose, if the run has a curve."""
    try:
        table = tabulate_regret(run.directory.path)
    except (FileNotFoundError, ValueError):
        return {}
    if table.empty:
        return {}
    best = (table["accuracy"] + table["regret"]).max()
    return {"oracle/best": best, **table["accuracy"].add_prefix("chosen/")}
