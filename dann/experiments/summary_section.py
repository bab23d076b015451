"""The table on top of the page of results: each task in one row."""

import statistics
from collections.abc import Mapping, Sequence

from dann.experiments.markdown_table import markdown_table
from dann.experiments.results import Result

_WITHOUT = "dann schedule.high=0"
_COLUMNS = ("source_only", _WITHOUT, "dann", "target_only")
_HEADS = (
    "experiment",
    "runs, steps",
    "source only",
    "DANN, strength 0",
    "DANN",
    "the adversary adds",
    "train on target (oracle)",
    "DANN, published",
)


def summary_section(
    results: Sequence[Result],
    experiments: Sequence[str],
    published: Mapping[str, Mapping[str, float | None]],
) -> list[str]:
    """Returns the lines of the table, none if there is no result of DANN in the experiments.

    Args:
        results: The results.
        experiments: Names of the experiments to show, in order; those without DANN are left out.
        published: Target accuracies of the literature, by experiment and method.
    """
    rows = [_row(name, results, published.get(name, {})) for name in experiments]
    rows = [row for row in rows if row]
    if not rows:
        return []
    return [
        "## In short",
        "",
        "Mean target accuracy after the last step, in percent, with its standard deviation over "
        "seeds. DANN has the regularizers of its experiment. With strength 0 everything is as with "
        "DANN, but no gradient of the discriminator reaches the features; what the adversary adds "
        "are points above it on the same seeds. Source only has DANN's network; the published one "
        "of `protocol_...` has no bottleneck (next table). Published figures are best epochs by "
        "target labels where the experiment is called `protocol_...`.",
        "",
        markdown_table(_HEADS, rows),
        "",
    ]


def _row(experiment, results, published):
    accuracies = {
        method: {
            result.seed: 100 * result.target_accuracy
            for result in results
            if (result.experiment, result.method) == (experiment, method)
        }
        for method in _COLUMNS
    }
    ours, without = accuracies["dann"], accuracies[_WITHOUT]
    if not ours:
        return None
    steps = {r.steps for r in results if (r.experiment, r.method) == (experiment, "dann")}
    both = [ours[seed] - without[seed] for seed in without if seed in ours]
    adds = f"{statistics.mean(both):+.1f} (n = {len(both)})" if both else ""
    cells = {method: _cell([*found.values()]) for method, found in accuracies.items()}
    return (
        f"`{experiment}`",
        f"{len(ours)}, {' '.join(f'{count:,}' for count in sorted(steps))}",
        cells["source_only"],
        cells[_WITHOUT],
        cells["dann"],
        adds,
        cells["target_only"],
        f"{100 * published['dann']:.1f}" if published.get("dann") is not None else "",
    )


def _cell(accuracies):
    if not accuracies:
        return ""
    spread = f" ± {statistics.stdev(accuracies):.1f}" if len(accuracies) > 1 else ""
    return f"{statistics.mean(accuracies):.1f}{spread}"
