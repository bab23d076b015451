"""The section of the results that compares them with published figures."""

import statistics
from collections.abc import Mapping, Sequence

from dann.experiments.markdown_table import markdown_table
from dann.experiments.results import CHOSEN, Result
from dann.experiments.row_names import row_names

_BEGINNING = """## Beside published figures

Mean target accuracy in percent over the seeds. The best epoch is chosen by target labels, as the
published figures of the experiments called `protocol_...` are; InfoMax chooses without them.

"""
_HEADS = (
    "experiment",
    "method",
    "runs, steps",
    "last step",
    "InfoMax's epoch",
    "best epoch (oracle)",
    "published",
    "best epoch - published, points",
    "what makes the difference",
)


def published_section(
    results: Sequence[Result],
    published: Mapping[str, Mapping[str, float]],
    causes: Mapping[str, Mapping[str, str]],
    names: Mapping[str, str],
) -> list[str]:
    """Returns the section in Markdown as a list of one text, empty where nothing is published.

    Args:
        results: The results.
        published: Target accuracies of the literature, by experiment and method.
        causes: What makes a row differ from the published figure, by experiment and method.
        names: Names of methods with arguments.
    """
    rows = [
        _row(experiment, runs, figure, causes.get(experiment, {}).get(method, ""), names)
        for experiment, figures in published.items()
        for method, figure in figures.items()
        if (runs := [r for r in results if (r.experiment, r.method) == (experiment, method)])
    ]
    return [_BEGINNING + markdown_table(_HEADS, rows) + "\n"] if rows else []


def _row(experiment, runs, figure, cause, names):
    measures = ("target/accuracy", f"{CHOSEN}info_max", "oracle/best")
    last, chosen, best = (
        statistics.mean(run.measures[measure] for run in runs)
        if all(measure in run.measures for run in runs)
        else None
        for measure in measures
    )
    steps = " ".join(f"{count:,}" for count in sorted({run.steps for run in runs}))
    return (
        f"`{experiment}`",
        row_names(runs, names)[runs[0].method],
        f"{len(runs)}, {steps}",
        *("" if share is None else f"{100 * share:.1f}" for share in (last, chosen, best, figure)),
        "" if best is None else f"{100 * (best - figure):+.1f}",
        cause,
    )
