"""The table on top of the page of results: each task in one row."""

import itertools
import statistics
from collections.abc import Sequence
from typing import Any

from dann.experiments.markdown_table import markdown_table
from dann.experiments.results import Result, percent_of_runs, points_gained

WITHOUT = "dann schedule.high=0"
_COLUMNS = {
    "source_only": "source only",
    WITHOUT: "DANN, strength 0",
    "dann": "DANN",
    "target_only": "train on target (oracle)",
}
_HEADS = (
    "experiment",
    *(_COLUMNS[name] for name in ("source_only", WITHOUT, "dann")),
    "the adversary adds",
    "DANN, published",
    _COLUMNS["target_only"],
)


def summary_section(results: Sequence[Result], settings: Any) -> list[str]:
    """Returns the lines of the section, none if there is no result of DANN in the experiments.

    Args:
        results: The results.
        settings: Object with `summary`, the names of the experiments to show, in order; those
            without DANN are left out; and `published`, as for
            `dann.experiments.results_page.results_page`.
    """
    tasks = {
        name: {m: [r for r in results if (r.experiment, r.method) == (name, m)] for m in _COLUMNS}
        for name in settings.summary
    }
    tasks = {name: runs for name, runs in tasks.items() if runs["dann"]}
    if not tasks:
        return []
    published = (
        " The published figures of `protocol_...` are best epochs by target labels ([the same of "
        "these runs](#beside-published-figures))."
    )
    of_protocol = [name for name in tasks if name.startswith("protocol_")]
    return [
        "## In short",
        "",
        "Mean target accuracy after the last step, in percent, with its standard deviation over "
        "the seeds. At strength 0 everything is as with DANN, but no gradient of the discriminator "
        "reaches the features: what the adversary adds is the difference on the same seeds."
        f"{published if any(map(settings.published.get, of_protocol)) else ''}",
        "",
        markdown_table(_HEADS, [_row(*task, settings.published) for task in tasks.items()]),
        "",
        "DANN has the regularizers of its experiment, source only DANN's network. An empty cell "
        "has no run here, or nothing published. Steps, hardware and seeds of all columns, or of "
        "those named:",
        "",
        *[_circumstances(name, runs) for name, runs in tasks.items()],
        "",
    ]


def _row(experiment, runs, published):
    known = published.get(experiment, {}).get("dann")
    gained = points_gained(runs["dann"], runs[WITHOUT])
    return (
        f"`{experiment}`",
        percent_of_runs(runs["source_only"]),
        percent_of_runs(runs[WITHOUT]),
        percent_of_runs(runs["dann"]),
        f"{statistics.mean(gained):+z.1f} (n = {len(gained)})" if gained else "",
        "" if known is None else f"{100 * known:.1f}",
        percent_of_runs(runs["target_only"]),
    )


def _circumstances(experiment, runs):
    """A line with the steps, seeds and hardware of a row; columns with the same stand together."""
    columns: dict[str, list[str]] = {}
    for column, head in _COLUMNS.items():
        if runs[column]:
            seeds = _as_ranges(sorted(r.seed for r in runs[column]))
            steps = " and ".join(f"{count:,}" for count in sorted({r.steps for r in runs[column]}))
            hardware = " and ".join(sorted({r.hardware for r in runs[column]}))
            circumstances = f"{steps} steps ({hardware}), seeds {seeds}"
            columns.setdefault(circumstances, []).append(f'"{head}"')
    if len(columns) == 1:
        return f"- `{experiment}`: {next(iter(columns))}"
    told = "; ".join(f"{' and '.join(heads)}: {those}" for those, heads in columns.items())
    return f"- `{experiment}`: {told}"


def _as_ranges(seeds):
    """Seeds in order, as 0 to 4, 20."""
    rows = itertools.groupby(enumerate(seeds), lambda pair: pair[1] - pair[0])
    ranges = [[seed for _, seed in row] for _, row in rows]
    return ", ".join(f"{of[0]} to {of[-1]}" if len(of) > 1 else str(of[0]) for of in ranges)
