"""How well each label-free score chooses among finished runs, by their target accuracy."""

import dataclasses
import statistics
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from scipy import stats

from dann.experiments.results import SCORE, Result
from dann.selection import SCORES

SLOW = ("dev", "mix_val", "reverse_validation")  # which many runs therefore do not have
_FEWEST = 10  # runs of a task from which a correlation tells something


class Choice(NamedTuple):
    """How well a score chooses; regrets are shares in [0, 1].

    Args:
        correlation: Spearman's rank correlation of the score with the target accuracy, in [-1, 1].
        regret: The best target accuracy among the runs that have the score, minus that of the run
            which the score puts first, or the mean of those which it puts first together.
        regret_of_settings: As `regret`, with settings in place of runs; a setting has the mean
            accuracy and the mean score over its seeds.
    """

    correlation: float
    regret: float
    regret_of_settings: float


@dataclasses.dataclass(frozen=True)
class Choices:
    """How well scores choose among the runs of some tasks.

    Args:
        runs: How many runs with scores there are of each task.
        runs_with: How many of these have a score, by score and task. A score that no task has a
            choice by is left out, here and in `found`.
        found: The choices, by score and task. One is missing if fewer than 10 runs have the score,
            or all of these have the same score or accuracy.
    """

    runs: dict[str, int]
    runs_with: dict[str, dict[str, int]]
    found: dict[str, dict[str, Choice]]

    def complete(self, scores: Collection[str]) -> list[str]:
        """Returns the tasks of which each run has all of these scores; none without a score."""
        return [
            task
            for task, count in self.runs.items()
            if scores
            and all(
                task in self.found.get(score, ()) and self.runs_with[score][task] == count
                for score in scores
            )
        ]

    @property
    def compared(self) -> list[str]:
        """The tasks of which each run has all scores but the slow ones."""
        return self.complete([score for score in self.found if score not in SLOW])

    def mean(self, score: str, tasks: Collection[str]) -> Choice | None:
        """Returns the mean over tasks, or `None` if there are none or a run lacks the score."""
        if not tasks or not {*tasks} <= {*self.complete([score])}:
            return None
        of_tasks = (self.found[score][task] for task in tasks)
        return Choice(*map(statistics.mean, zip(*of_tasks, strict=True)))


def score_choices(results: Sequence[Result]) -> Choices:
    """Returns how well every score, and `agreement`, chooses among the runs that have it.

    Args:
        results: The results. Oracles, and tasks of which fewer than 10 runs have scores, are left
            out.
    """
    tasks: dict[str, list[Result]] = {}
    for result in results:
        scored = any(name.startswith(SCORE) for name in result.measures)
        if scored and not result.is_oracle:
            tasks.setdefault(result.experiment, []).append(result)
    tasks = {name: runs for name, runs in tasks.items() if len(runs) >= _FEWEST}
    runs_with, found = {}, {}
    for score in ("agreement", *SCORES):
        those = {
            task: [run for run in runs if SCORE + score in run.measures]
            for task, runs in tasks.items()
        }
        choices = {task: choice for task, runs in those.items() if (choice := _choice(runs, score))}
        if choices:
            found[score] = choices
            runs_with[score] = {task: len(runs) for task, runs in those.items()}
    return Choices({task: len(runs) for task, runs in tasks.items()}, runs_with, found)


def _choice(runs, score):
    """How well a score chooses, or `None`. Of runs that agree equally, InfoMax chooses."""
    scores = [run.measures[SCORE + score] for run in runs]
    accuracies = [run.target_accuracy for run in runs]
    if len(runs) < _FEWEST or len(set(scores)) == 1 or len(set(accuracies)) == 1:
        return None
    keys = [SCORE + score, *([f"{SCORE}info_max"] if score == "agreement" else [])]
    rows = [[run.target_accuracy, *(run.measures.get(key, 0.0) for key in keys)] for run in runs]
    settings: dict[str, list[list[float]]] = {}
    for run, row in zip(runs, rows, strict=True):
        settings.setdefault(run.method, []).append(row)
    means = [
        [statistics.mean(column) for column in zip(*of, strict=True)] for of in settings.values()
    ]
    correlation: Any = stats.spearmanr(scores, accuracies)
    return Choice(float(correlation.statistic), _regret(rows), _regret(means))


def _regret(rows):
    """The best accuracy minus the mean of the rows with the highest scores; accuracies lead."""
    highest = max(row[1:] for row in rows)
    return max(row[0] for row in rows) - statistics.mean(r[0] for r in rows if r[1:] == highest)
