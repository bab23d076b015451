"""The table on top of the page of results: each task in one row."""

import statistics
from collections.abc import Sequence
from typing import Any

from dann.experiments.markdown_table import markdown_table
from dann.experiments.results import Result, percent_of_runs, points_gained

_WITHOUT = "dann schedule.high=0"
_COLUMNS = ("source_only", _WITHOUT, "dann", "target_only")
_HEADS = (
    "experiment",
    "source only",
    "DANN, strength 0",
    "DANN",
    "the adversary adds",
    "DANN, published",
    "train on target (oracle)",
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
    return [
        "## In short",
        "",
        "Mean target accuracy after the last step, in percent, with its standard deviation over "
        "the seeds. At strength 0 everything is as with DANN, but no gradient of the discriminator "
        "reaches the features: what the adversary adds is the difference on the same seeds. The "
        "published figures of `protocol_...` are best epochs by target labels ([the same of these "
        "runs](#beside-published-figures)).",
        "",
        markdown_table(_HEADS, [_row(*task, settings.published) for task in tasks.items()]),
        "",
        "DANN has the regularizers of its experiment, source only DANN's network. An empty cell "
        "has no run here, or nothing published.",
        "",
        *[_told(name, runs) for name, runs in tasks.items()],
        "",
    ]


def _row(experiment, runs, published):
    known = published.get(experiment, {}).get("dann")
    gained = points_gained(runs["dann"], runs[_WITHOUT])
    return (
        f"`{experiment}`",
        percent_of_runs(runs["source_only"]),
        percent_of_runs(runs[_WITHOUT]),
        percent_of_runs(runs["dann"]),
        f"{statistics.mean(gained):+z.1f} (n = {len(gained)})" if gained else "",
        "" if known is None else f"{100 * known:.1f}",
        percent_of_runs(runs["target_only"]),
    )


def _told(experiment, runs):
    """A line with the seeds and steps of DANN, and the hardware of all runs in the row."""
    seeds = ", ".join(str(seed) for seed in sorted(r.seed for r in runs["dann"]))
    steps = " and ".join(f"{count:,}" for count in sorted({r.steps for r in runs["dann"]}))
    hardware = "; ".join(sorted({r.hardware for of in runs.values() for r in of}))
    return f"- `{experiment}`: DANN with the seeds {seeds}; {steps} steps; {hardware}"
