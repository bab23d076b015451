"""The section of the results that tells how well each label-free score chooses."""

import statistics
from collections.abc import Sequence

from dann.experiments.markdown_table import markdown_table
from dann.experiments.results import CHOSEN, Result
from dann.experiments.score_choices import SLOW, score_choices
from dann.selection import SCORES

_NAMED = ", ".join(f"`{name}`" for name in SLOW)
_BEGINNING = f"""## Scores without target labels

How well does each score of `dann.selection` choose? Target accuracy is on the test set; no score
reads it.

Among finished runs: in each cell are the rank correlation (Spearman's) of the score with the target
accuracy, over all runs of the task that have the score, but the oracle's, and the regret: the best
target accuracy of these runs minus that of the run that the score puts first, in points; of several
that share the first place the mean. `agreement` compares the seeds of the same settings with each
other, where runs kept their predictions; of runs that agree equally InfoMax puts one first. In
brackets stands how many runs have the score, if others do not. The first mean is over the tasks of
which each run has all scores but the slow ones ({_NAMED}), the second over
those of which each run has every score in the table. The last column is the mean regret where the
setting with the highest mean score over its seeds is chosen, over the tasks of the first mean.
"""
_OF_EPOCHS = """
Among the epochs of a run: the mean regret over all runs that have the score and an oracle curve, in
points.
"""


def scores_section(results: Sequence[Result]) -> list[str]:
    """Returns the section in Markdown as a list of one text, empty where no run has scores."""
    lines = [*_of_runs(results), *_of_epochs(results)]
    return [_BEGINNING + "\n".join(lines) + "\n"] if lines else []


def _of_runs(results):
    """Lines of the table of the choice among runs; none if no task has enough of them."""
    choices = score_choices(results)
    if not choices.runs:
        return []
    quick, every = choices.compared, choices.complete(choices.found)
    means = {
        score: [choices.mean(score, quick), choices.mean(score, every)] for score in choices.found
    }
    order = sorted(means, key=lambda score: [-(mean or (-2,))[0] for mean in means[score]])
    rows = [
        [
            f"`{score}`",
            *(_cell_of_task(choices, score, task) for task in choices.runs),
            *map(_cell, means[score]),
            _of_settings(means[score][0]),
        ]
        for score in order
    ]
    heads = ["score", *(f"{task} ({count} runs)" for task, count in choices.runs.items())]
    heads += ["mean", "mean, every score", "regret of settings, mean"]
    return ["", markdown_table(heads, rows)]


def _cell_of_task(choices, score, task):
    count = choices.runs_with[score][task]
    cell = _cell(choices.found[score].get(task))
    return f"{cell} ({count})" if cell and count < choices.runs[task] else cell


def _cell(choice):
    return "" if choice is None else f"{choice.correlation:z.2f}, {100 * choice.regret:.1f}"


def _of_settings(choice):
    return "" if choice is None else f"{100 * choice.regret_of_settings:.1f}"


def _of_epochs(results):
    """Lines of the table of the choice among epochs; none if no run has an oracle curve."""
    regrets = {
        name: [
            run.measures["oracle/best"] - run.measures[f"{CHOSEN}{name}"]
            for run in results
            if not run.is_oracle and {f"{CHOSEN}{name}", "oracle/best"} <= run.measures.keys()
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
