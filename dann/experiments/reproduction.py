"""Experiments over methods and seeds, with the table and the page of their results."""

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import keras

from dann.checks import check_integer
from dann.experiments.processes import Processes
from dann.experiments.results import SCORE, read_results, result_of_run, write_results
from dann.experiments.results_page import results_page
from dann.experiments.sweep import agreement_of_runs
from dann.training import RunDirectory
from dann.training.files_on_disk import lock_directory

_BASELINES = ("source_only", "target_only")


class Reproduction:
    """Runs experiments with several methods and seeds, and writes their results.

    For each experiment and method the training script runs over the missing seeds (as a Hydra
    multirun), in a process of its own, so that a failure stops nothing else. A run is not repeated
    if the table has it, or its directory is finished, with the same settings. The baselines
    `source_only` and `target_only`, which take no regularizers, run without the experiment's and
    those of `overrides`.

    Args:
        settings: Object with `experiments`, `methods`, `seeds`, `overrides`, `jobs`, `runs_dir`,
            `results`, `page`, `paths.data_dir` and `paths.cache_dir`; `conf/reproduce.yaml` has
            them. A method may have arguments, as `"mdd schedule=mdd"`.
        script: The training script.
        digest_of_command: Returns the digest of the settings that a run's arguments make.
        digest_of_run: Returns the same from a run's directory, or `None` if it is not finished.

    Raises:
        PermissionError: If the results cannot be written.
        ValueError: If `jobs` is below 1, if there is nothing to run, if two methods have the same
            settings, or if the results file is something else or holds results of the same
            experiment and method with other settings, or by another backend where seeds are
            missing.
    """

    def __init__(
        self,
        settings: Any,
        script: pathlib.Path,
        digest_of_command: Callable[[Sequence[str]], str],
        digest_of_run: Callable[[pathlib.Path], str | None],
    ):
        check_integer("jobs", settings.jobs, 1)
        for name in ("experiments", "methods", "seeds"):
            if not getattr(settings, name):
                raise ValueError(f"Argument `{name}` must name at least one. Received: none")
        self.settings = settings
        self.script = script
        self.digest_of_run = digest_of_run
        self.processes = Processes()
        self.csv = pathlib.Path(settings.results)
        self.directory = pathlib.Path(settings.runs_dir)
        self.digests = {
            (experiment, method): digest_of_command(self._arguments(experiment, method))
            for experiment in settings.experiments
            for method in settings.methods
        }
        self._check_directories()
        self.results = read_results(self.csv)
        self._check_settings()
        self.csv.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(self.csv.parent, os.W_OK):
            raise PermissionError(f"Results cannot be written. Received: results={self.csv}")

    def _check_directories(self):
        """Raises an error if two runs would write to one directory."""
        methods = {}
        for key in self.digests:
            other = methods.setdefault(self._directory(*key), key)
            if other != key:
                raise ValueError(
                    f"Argument `methods` must name different settings. Received: {other[1]!r} and "
                    f"{key[1]!r}, which have the same in {key[0]}"
                )

    def _check_settings(self):
        """Raises an error if a row would mix runs of other settings or another backend."""
        for result in self.results:
            key = result.experiment, result.method
            if self.digests.get(key, result.settings) != result.settings:
                raise ValueError(
                    f"{self.csv} holds results of {' '.join(key)} with other settings; give "
                    f"another file, results=..., or remove those rows. Received: settings "
                    f"{self.digests[key]} beside {result.settings}"
                )
            backend = keras.backend.backend()
            if result.backend != backend and key in self.digests and self._missing(*key):
                raise ValueError(
                    f"{self.csv} holds results of {' '.join(key)} by another backend; set "
                    f"KERAS_BACKEND={result.backend}, or give another file, results=.... "
                    f"Received: {backend}"
                )

    def run(self) -> list[str]:
        """Runs what is missing, and writes the results after each experiment and method.

        A `KeyboardInterrupt` ends the runs in progress, and no other begins.

        Returns:
            The experiments and methods that failed.

        Raises:
            OSError: If another command runs experiments in `runs_dir`.
        """
        with lock_directory(self.directory):
            return self._run()

    def _run(self):
        self._collect()
        with ThreadPoolExecutor(self.settings.jobs) as pool:
            try:
                failed = self._run_missing(pool)
            except KeyboardInterrupt:
                self.processes.end()  # the imports of a run may swallow an interruption
                raise
        print(f"Written to {self.csv} and {self.csv.with_suffix('.md')}")
        return failed

    def _run_missing(self, pool):
        missing = ((key, seeds) for key in self.digests if (seeds := self._missing(*key)))
        running, failed = {}, []
        try:
            while True:
                # Not all at once: a free thread would take the next before an interruption.
                for key, seeds in islice(missing, self.settings.jobs - len(running)):
                    running[pool.submit(self._train, *key, seeds)] = key
                if not running:
                    return failed
                time.sleep(0.1)  # a wait for a lock may miss a signal that comes as it begins
                for future in [one for one in running if one.done()]:
                    key = running.pop(future)
                    if future.result() != 0:
                        failed.append(" ".join(key))
                    self._collect()
        except Exception:
            pool.shutdown()  # running commands end first
            raise

    def _arguments(self, experiment, method):
        name, *own = method.split()
        shared = self.settings.overrides
        if name in _BASELINES and not any(map(_of_regularizers, own)):
            own.append("regularizer=none")
            shared = [argument for argument in shared if not _of_regularizers(argument)]
        return [f"experiment={experiment}", f"method={name}", *own, "compare=false", *shared]

    def _directory(self, experiment, method):
        digest = self.digests[experiment, method]
        return self.directory / experiment / method.split()[0] / digest

    def _missing(self, experiment, method):
        digest = self.digests[experiment, method]
        there = {
            result.seed
            for result in self.results
            if (result.experiment, result.method, result.settings) == (experiment, method, digest)
        }
        return [seed for seed in self.settings.seeds if seed not in there]

    def _train(self, experiment, method, seeds):
        directory = self._directory(experiment, method)
        directory.mkdir(parents=True, exist_ok=True)
        for seed in seeds:
            self._clear(directory / f"seed_{seed}")
        log_file = RunDirectory(directory).log_file
        told = f"{experiment} {method}: seeds {seeds}, log in {log_file}\n"
        print(told, end="", flush=True)  # in one piece, as other threads print too
        arguments = [
            "-m",
            *self._arguments(experiment, method),
            f"seed={','.join(map(str, seeds))}",
            f"hydra.sweep.dir={directory}",
            "hydra.sweep.subdir=seed_${seed}",
        ]
        if self.settings.paths.data_dir is not None:
            arguments.append(f"paths.data_dir={self.settings.paths.data_dir}")
        arguments.append(f"paths.cache_dir={self.settings.paths.cache_dir}")
        with log_file.open("a") as log:
            command = [sys.executable, str(self.script), *arguments]
            return self.processes.run(
                command, stdout=log, stderr=subprocess.STDOUT, env=self._environment()
            )

    def _clear(self, directory):
        """Removes what an interrupted run left, whose events would mix with new ones."""
        if directory.exists() and self.digest_of_run(directory) is None:
            shutil.rmtree(directory)

    def _environment(self):
        """Returns the environment in which processes side by side share the cores."""
        if self.settings.jobs == 1:
            return None
        threads = str(max(1, (os.cpu_count() or 1) // self.settings.jobs))
        names = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
        return {**dict.fromkeys(names, threads), **os.environ}

    def _collect(self):
        """Adds every finished run to the table, and writes the table and the page."""
        for (experiment, method), digest in self.digests.items():
            for seed in self._missing(experiment, method):
                directory = self._directory(experiment, method) / f"seed_{seed}"
                if self.digest_of_run(directory) == digest:
                    bar = self.settings.page.bars.get(experiment)
                    result = result_of_run(directory, experiment, method, digest, bar)
                    self.results.append(result)
        self._compare_runs()
        if self.results:
            write_results(self.results, self.csv)
            self.results = read_results(self.csv)
            page = results_page(
                self.results,
                self.settings.page,
                self._noted(),
                self.csv.name,
                self.settings.overrides,
            )
            self.csv.with_suffix(".md").write_text(page)

    def _compare_runs(self):
        """Tells each run how far it agrees with the other seeds of its row.

        A row whose runs are not all here keeps what it had.
        """
        runs = {}
        for key, digest in self.digests.items():
            rows = [
                (index, self._directory(*key) / f"seed_{result.seed}")
                for index, result in enumerate(self.results)
                if (result.experiment, result.method, result.settings) == (*key, digest)
            ]
            if all(self.digest_of_run(path) == digest for _, path in rows):
                runs.update({path: (key, index) for index, path in rows})
        for path, value in agreement_of_runs(runs).items():
            index = runs[path][1]
            told = {**self.results[index].measures, f"{SCORE}agreement": round(value, 6)}
            self.results[index] = dataclasses.replace(self.results[index], measures=told)

    def _noted(self):
        """Returns the experiments that `experiments.md` beside the results has a section on."""
        page = self.csv.with_name("experiments.md")
        return re.findall(r"^## (\w+)$", page.read_text(), re.M) if page.is_file() else []


def _of_regularizers(argument):
    return argument.lstrip("+~").startswith(("regularizer=", "regularizers"))
