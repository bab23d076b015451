"""The section of the results that compares them with published figures."""

import collections
import statistics
from collections.abc import Sequence
from typing import Any

from dann.experiments.markdown_table import markdown_table
from dann.experiments.results import (
    CHOSEN,
    Result,
    mean_measure,
    percent_of_runs,
    points_gained,
)
from dann.experiments.row_names import row_names

_BEGINNING = """## Beside published figures

Mean target accuracy in percent, and after the last step its standard deviation over the seeds. The
best epoch is chosen by target labels, as most published figures of the experiments called
`protocol_...` are; InfoMax chooses without them. At strength 0 everything is the same, but no
gradient of the adversary reaches the features; in brackets stand the points that the adversary
adds. CDAN, CDAN+E and DANN then descend one loss, and so do MDD and f-DAL, so they share a row. An
empty cell has no run or does not apply. The tables of each task below have the seeds and the
hardware.

"""
_HEADS = (
    "experiment",
    "method",
    "runs, steps",
    "last step",
    "strength 0, last step",
    "InfoMax's epoch",
    "best epoch (oracle)",
    "published",
    "best epoch - published, points",
    "what makes the difference",
)


def published_section(results: Sequence[Result], settings: Any) -> list[str]:
    """Returns the section in Markdown as a list of one text, empty where nothing is published.

    Args:
        results: The results.
        settings: Object with `published`, `without_adversary`, `causes` and `names`, as for
            `dann.experiments.results_page.results_page`.
    """
    by_row = collections.defaultdict(list)
    for result in results:
        by_row[result.experiment, result.method].append(result)
    rows = [
        _row(by_row, experiment, method, figure, settings)
        for experiment, figures in settings.published.items()
        for method, figure in figures.items()
        if (experiment, method) in by_row
    ]
    return [_BEGINNING + markdown_table(_HEADS, rows) + "\n"] if rows else []


def _row(by_row, experiment, method, figure, settings):
    runs = by_row[experiment, method]
    measures = (f"{CHOSEN}info_max", "oracle/best")
    chosen, best = (mean_measure(runs, measure) for measure in measures)
    without = by_row.get((experiment, settings.without_adversary.get(method)), ())
    steps = " ".join(f"{count:,}" for count in sorted({run.steps for run in runs}))
    return (
        f"`{experiment}`",
        row_names(runs, settings.names)[method],
        f"{len(runs)}, {steps}",
        percent_of_runs(runs),
        _without_adversary(runs, without),
        *map(_percent, (chosen, best, figure)),
        "" if None in (best, figure) else f"{100 * (best - figure):+z.1f}",
        settings.causes.get(experiment, {}).get(method, ""),
    )


def _percent(share):
    return "" if share is None else f"{100 * share:.1f}"


def _without_adversary(runs, without):
    """The mean at strength 0 and, in brackets, what the adversary adds on the same seeds."""
    gained = points_gained(runs, without)
    added = f" ({statistics.mean(gained):+z.1f})" if gained else ""
    return f"{_percent(mean_measure(without, 'target/accuracy'))}{added}"
