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

from dann.checks import check_choice, check_integer
from dann.experiments.sweep import rank_sweep
from dann.selection import SCORES, choose
from dann.training import RunDirectory
from dann.training.files_on_disk import lock_directory


class Study:
    """Asks Optuna for settings, trains with them, and tells Optuna the score that they reached.

    Each trial runs the training script in a process of its own, in `trial_<number>` of the study's
    directory, with its output in `log.txt`. A trial fails if the script does, if its score is not
    finite, or if it learned from the target's labels, since nothing is chosen by an oracle. The
    study continues after a failure. `study.log` keeps it: the same command continues where it was
    stopped, and adds trials if `trials` is larger.

    Args:
        settings: Object with `trials`, their number, failed ones included; `objective`,
            a name in `dann.selection.SCORES`; `overrides`, further arguments of every trial;
            `seed` of the search; `directory`; `paths.data_dir` and `paths.cache_dir`.
            `conf/optimize.yaml` has them.
        space: Optuna's distributions by the key that they set.
        script: The training script.
        scores: The scores that a trial computes.

    Raises:
        ValueError: If `trials` is below 1 or `seed` below 0, if the objective is not a label-free
            score that every trial computes, or if the directory holds a study with other settings.
    """

    def __init__(
        self,
        settings: Any,
        space: Mapping[str, optuna.distributions.BaseDistribution],
        script: pathlib.Path,
        scores: Sequence[str],
    ):
        _check_objective(settings.objective, scores)
        check_integer("trials", settings.trials, 1)
        check_integer("seed", settings.seed, 0)
        self.settings = settings
        self.space = dict(space)
        self.script = script
        self.directory = pathlib.Path(settings.directory)
        self.key = f"selection/{settings.objective}"
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.study = self._study()

    def _study(self):
        """Opens the study of the directory, or begins one."""
        new = not (self.directory / "study.log").exists()
        self.directory.mkdir(parents=True, exist_ok=True)
        study = optuna.create_study(
            storage=JournalStorage(JournalFileBackend(str(self.directory / "study.log"))),
            study_name="dann",
            direction="maximize",
            load_if_exists=True,
        )
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
        # With the same seed, a search that continues would repeat its first trials.
        seed = (self.settings.seed + len(study.trials)) % 2**32
        study.sampler = optuna.samplers.TPESampler(seed=seed)
        return study

    def run(self) -> str | None:
        """Runs the missing trials, then writes `optimize.csv` and `optimize.png`.

        Returns:
            The ranking as text, or `None` if no trial reached a score.

        Raises:
            OSError: If another search writes to the directory.
        """
        with lock_directory(self.directory):
            return self._run()

    def _run(self):
        for trial in self.study.get_trials(states=(TrialState.RUNNING,)):
            self._tell(trial.number)  # an interruption came before Optuna was told
        while len(self.study.trials) < self.settings.trials:
            trial = self.study.ask(self.space)
            arguments = _arguments(trial)
            print(f"trial {trial.number}: {' '.join(arguments)}", end="", flush=True)
            self._train(trial.number, arguments)
            self._tell(trial.number)
            value = self.study.trials[trial.number].value
            log = RunDirectory(self._folder(trial.number)).log_file
            print(f": failed, see {log}" if value is None else f": {value:.4f}", flush=True)
        trials = {self._folder(t.number).name: _arguments(t) for t in self.study.trials}
        return rank_sweep(self.directory, self.settings.objective, trials, name="optimize")

    def _folder(self, number):
        return self.directory / f"trial_{number}"

    def _train(self, number, arguments):
        folder = RunDirectory(self._folder(number))
        folder.path.mkdir(parents=True, exist_ok=True)
        folder.discard_summary()  # of an earlier study
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
        with folder.log_file.open("w") as log:
            subprocess.run(command, stdout=log, stderr=subprocess.STDOUT)

    def _tell(self, number):
        """Tells Optuna the score of a trial, or that it failed."""
        trial = RunDirectory(self._folder(number))
        summary = trial.summary() if trial.is_finished() else {}
        value = summary.get(self.key, math.nan)
        if math.isfinite(value) and not summary["oracle"]:
            self.study.tell(number, value)
        else:
            self.study.tell(number, state=TrialState.FAIL)


def _check_objective(objective, scores):
    why = "the target accuracy is an oracle's, by which nothing is chosen"
    check_choice("objective", objective, SCORES, why=why)
    how = f"for another, add overrides=['selection.scores=[{objective}]']"
    check_choice("objective", objective, choose(scores), why=how)


def _arguments(trial: FrozenTrial | optuna.Trial) -> list[str]:
    return [f"{key}={value}" for key, value in trial.params.items()]
