"""The section of the results that tells how well each label-free score chooses."""

import itertools
import statistics
from collections.abc import Sequence
from typing import Any

from scipy import stats

from dann.experiments.markdown_table import markdown_table
from dann.experiments.results import CHOSEN, SCORE, Result
from dann.selection import SCORES

_FEWEST = 10  # runs of a task from which a correlation tells something
_SLOW = ("dev", "mix_val", "reverse_validation")  # which many runs therefore do not have
_NAMED = ", ".join(f"`{name}`" for name in _SLOW)
_BEGINNING = f"""## Scores without target labels

How well does each score of `dann.selection` choose? Target accuracy is on the test set; no score
reads it.

Among finished runs: in each cell are the rank correlation (Spearman's) of the score with the target
accuracy, over all runs of the task that have scores, but the oracle's, and the regret: the best
target accuracy minus that of the run that the score puts first, in points. `agreement` compares the
seeds of the same settings with each other; a task with runs that kept no predictions has none. The
first mean is over the tasks that have all scores but the slow ones ({_NAMED}), the
second over those that have every score. The last column is the mean regret where the setting with
the highest mean score over its seeds is chosen, over the tasks of the first mean.
"""
_OF_EPOCHS = """
Among the epochs of a run: the mean regret over all runs that have the score and an oracle curve, in
points.
"""


def scores_section(results: Sequence[Result]) -> list[str]:
    """Returns the section in Markdown as a list of one text, empty where no run has scores."""
    ranked = [r for r in results if r.method.split()[0] != "target_only"]
    lines = [*_of_runs(ranked), *_of_epochs(ranked)]
    return [_BEGINNING + "\n".join(lines) + "\n"] if lines else []


def _of_runs(results):
    """Lines of the table of the choice among runs; none if no task has enough of them."""
    tasks: dict[str, list[Result]] = {}
    for result in results:
        if any(name.startswith(SCORE) for name in result.measures):
            tasks.setdefault(result.experiment, []).append(result)
    tasks = {name: runs for name, runs in tasks.items() if len(runs) >= _FEWEST}
    if not tasks:
        return []
    heads = [f"{name} ({len(runs)} runs)" for name, runs in tasks.items()]
    found = {
        name: [_correlation_and_regrets(runs, name) for runs in tasks.values()]
        for name in ["agreement", *SCORES]
    }
    found = {name: of for name, of in found.items() if any(of)}
    quick = [name for name in found if name not in _SLOW]
    means = {name: [_means(found, quick, name), _means(found, [*found], name)] for name in found}
    order = sorted(found, key=lambda name: [-(mean or (-2,))[0] for mean in means[name]])
    cells = [
        [f"`{name}`", *map(_cell, [*found[name], *means[name]]), _of_settings(means[name][0])]
        for name in order
    ]
    heads = ["score", *heads, "mean", "mean, every score", "regret of settings, mean"]
    return ["", markdown_table(heads, cells)]


def _correlation_and_regrets(runs, name):
    """The correlation over the runs of a task, and the regrets of a run and of a setting.

    `None` where not every run has the score, or all are equal. Of runs that agree equally, InfoMax
    chooses, as in a sweep.
    """
    scores = [run.measures.get(f"{SCORE}{name}") for run in runs]
    accuracies = [run.target_accuracy for run in runs]
    if None in scores or len(set(scores)) == 1 or len(set(accuracies)) == 1:
        return None
    keys = [SCORE + name, *([f"{SCORE}info_max"] if name == "agreement" else [])]
    rows = [[run.target_accuracy, *(run.measures.get(key, 0.0) for key in keys)] for run in runs]
    settings: dict[str, list[list[float]]] = {}
    for run, row in zip(runs, rows, strict=True):
        settings.setdefault(run.method, []).append(row)
    means = [
        [statistics.mean(column) for column in zip(*of, strict=True)] for of in settings.values()
    ]
    found: Any = stats.spearmanr(scores, accuracies)
    return float(found.statistic), _regret(rows), _regret(means)


def _regret(rows):
    """The best accuracy minus that of the row with the highest scores; accuracies come first."""
    return max(row[0] for row in rows) - max(rows, key=lambda row: row[1:])[0]


def _means(found, needed, name):
    """A score's means over the tasks that have the needed scores, or `None` if there are none."""
    complete = [all(pairs) for pairs in zip(*(found[score] for score in needed), strict=True)]
    if name not in needed or not any(complete):
        return None
    of_tasks = itertools.compress(found[name], complete)
    return [statistics.mean(column) for column in zip(*of_tasks, strict=True)]


def _cell(numbers):
    return "" if numbers is None else f"{numbers[0]:.2f}, {100 * numbers[1]:.1f}"


def _of_settings(numbers):
    return "" if numbers is None else f"{100 * numbers[2]:.1f}"


def _of_epochs(results):
    """Lines of the table of the choice among epochs; none if no run has an oracle curve."""
    regrets = {
        name: [
            run.measures["oracle/best"] - run.measures[f"{CHOSEN}{name}"]
            for run in results
            if f"{CHOSEN}{name}" in run.measures and "oracle/best" in run.measures
        ]
        for name in SCORES
    }
    regrets = {name: values for name, values in regrets.items() if values}
    if not regrets:
        return []
    means = {name: 100 * statistics.mean(values) for name, values in regrets.items()}
    rows = [
        [f"`{name}`", f"{means[name]:.2f}", str(len(regrets[name]))]
        for name in sorted(means, key=means.__getitem__)
    ]
    return [_OF_EPOCHS, markdown_table(["score", "mean regret", "runs"], rows)]
