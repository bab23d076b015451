"""A search for settings by a label-free score, with Optuna."""

import json
import math
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from dann.experiments.sweep import rank_sweep
from dann.selection.scores import SCORES


class Study:
    """Asks Optuna for settings, trains with them, and tells it the score that they came to.

    Each trial is a run of the training script in a process of its own, in `trial_<number>` of the
    study's directory with its output in `log.txt`. One that fails, or whose score is not finite,
    counts as failed and the study goes on. The study is kept in `study.log`: the same command goes
    on where it was stopped, and with more `trials` adds to them. A trial that learned from the
    target's labels counts as failed, too: by an oracle nothing is chosen.

    Args:
        settings: Object with `trials`, how many there are to be with those that failed,
            `objective`, a name in `dann.selection.SCORES`, `overrides`, further arguments of every
            trial, `seed` of the search, `directory`, `paths.data_dir` and `paths.cache_dir`, as
            `conf/optimize.yaml` has them.
        space: Optuna's distributions by the key that they set.
        script: The training script.
        scores: The scores that a trial computes.

    Raises:
        ValueError: If `trials` is below 1, the objective is no label-free score or none that a
            trial computes, or the directory holds a study with other settings.
    """

    def __init__(
        self,
        settings: Any,
        space: Mapping[str, optuna.distributions.BaseDistribution],
        script: pathlib.Path,
        scores: Sequence[str],
    ):
        _check_objective(settings.objective, scores)
        if settings.trials < 1:
            raise ValueError(f"`trials` must be at least 1. Received: {settings.trials}")
        self.settings = settings
        self.space = dict(space)
        self.script = script
        self.directory = pathlib.Path(settings.directory)
        self.key = f"selection/{settings.objective}"
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.study = self._study()

    def _study(self):
        """The study of the directory, or a new one."""
        new = not (self.directory / "study.log").exists()
        self.directory.mkdir(parents=True, exist_ok=True)
        study = optuna.create_study(
            storage=JournalStorage(JournalFileBackend(str(self.directory / "study.log"))),
            study_name="dann",
            direction="maximize",
            load_if_exists=True,
        )
        # A search that goes on draws anew; with the same seed it would repeat its first trials.
        study.sampler = optuna.samplers.TPESampler(seed=self.settings.seed + len(study.trials))
        described = {
            "objective": self.settings.objective,
            "overrides": list(self.settings.overrides),
            "space": {key: repr(value) for key, value in sorted(self.space.items())},
        }
        if new:
            study.set_user_attr("settings", described)
        kept = study.user_attrs.get("settings")
        if kept != described:
            raise ValueError(
                f"{self.directory} holds a study with other settings; give another directory=... "
                f"Received: {json.dumps(described)} beside {json.dumps(kept)}"
            )
        return study

    def run(self) -> str | None:
        """Runs the trials that are missing; writes `optimize.csv` and `optimize.png`.

        Returns:
            The ranking as text, or `None` if no trial came to a score.
        """
        for trial in self.study.get_trials(states=(TrialState.RUNNING,)):
            self._tell(trial.number)  # an interruption came before its end was told
        while len(self.study.trials) < self.settings.trials:
            trial = self.study.ask(self.space)
            arguments = _arguments(trial)
            print(f"trial {trial.number}: {' '.join(arguments)}", end="", flush=True)
            self._train(trial.number, arguments)
            self._tell(trial.number)
            value = self.study.trials[trial.number].value
            log = self._folder(trial.number) / "log.txt"
            print(f": failed, see {log}" if value is None else f": {value:.4f}", flush=True)
        trials = {self._folder(t.number).name: _arguments(t) for t in self.study.trials}
        return rank_sweep(self.directory, self.settings.objective, trials, name="optimize")

    def _folder(self, number):
        return self.directory / f"trial_{number}"

    def _train(self, number, arguments):
        folder = self._folder(number)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "summary.json").unlink(missing_ok=True)  # of an earlier study
        command = [
            *(sys.executable, str(self.script)),
            "compare=false",
            *self.settings.overrides,
            *arguments,
            f"hydra.run.dir={folder}",
            f"paths.cache_dir={self.settings.paths.cache_dir}",
        ]
        if self.settings.paths.data_dir is not None:
            command.append(f"paths.data_dir={self.settings.paths.data_dir}")
        with (folder / "log.txt").open("w") as log:
            subprocess.run(command, stdout=log, stderr=subprocess.STDOUT)

    def _tell(self, number):
        """Tells the score of a trial if it has one, else that it failed."""
        file = self._folder(number) / "summary.json"
        summary = json.loads(file.read_text()) if file.is_file() else {"oracle": False}
        value = summary.get(self.key, math.nan)
        if math.isfinite(value) and not summary["oracle"]:
            self.study.tell(number, value)
        else:
            self.study.tell(number, state=TrialState.FAIL)


def _check_objective(objective, scores):
    if objective not in SCORES:
        raise ValueError(
            f"`objective` must be a label-free score, one of {list(SCORES)}; the target accuracy "
            f"is an oracle's, by which nothing is chosen. Received: {objective}"
        )
    if objective not in scores:
        raise ValueError(
            f"`objective` must be a score that every trial computes; "
            f"overrides=['selection.scores=[{objective}]'] asks for it. Received: {objective}, of "
            f"{list(scores)}"
        )


def _arguments(trial: FrozenTrial | optuna.Trial) -> list[str]:
    return [f"{key}={value}" for key, value in trial.params.items()]
