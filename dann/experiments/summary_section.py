"""The table on top of the page of results: each task in one row."""

import statistics
from collections.abc import Mapping, Sequence

from dann.experiments.markdown_table import markdown_table
from dann.experiments.results import Result, percent_of_runs

_WITHOUT = "dann schedule.high=0"
_COLUMNS = ("source_only", _WITHOUT, "dann", "target_only")
_HEADS = (
    "experiment",
    "seeds of DANN",
    "steps",
    "source only",
    "DANN, strength 0",
    "DANN",
    "the adversary adds",
    "train on target (oracle)",
    "DANN, published",
    "hardware",
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
        "the seeds. At strength 0 everything is as with DANN, but no gradient of the discriminator "
        "reaches the features: what the adversary adds is the difference on the same seeds.",
        "",
        markdown_table(_HEADS, rows),
        "",
        "DANN has the regularizers of its experiment. Source only has DANN's network; the "
        "published one of `protocol_...` has no bottleneck. Published figures are best epochs by "
        "target labels where the experiment is called `protocol_...`. An empty cell has no run or "
        "does not apply.",
        "",
    ]


def _row(experiment, results, published):
    of_it = [r for r in results if r.experiment == experiment and r.method in _COLUMNS]
    runs = {method: [r for r in of_it if r.method == method] for method in _COLUMNS}
    if not runs["dann"]:
        return None
    ours, without = (
        {r.seed: 100 * r.target_accuracy for r in runs[method]} for method in ("dann", _WITHOUT)
    )
    both = [ours[seed] - without[seed] for seed in without if seed in ours]
    return (
        f"`{experiment}`",
        ", ".join(str(seed) for seed in sorted(ours)),
        " ".join(f"{count:,}" for count in sorted({r.steps for r in runs["dann"]})),
        percent_of_runs(runs["source_only"]),
        percent_of_runs(runs[_WITHOUT]),
        percent_of_runs(runs["dann"]),
        f"{statistics.mean(both):+z.1f} (n = {len(both)})" if both else "",
        percent_of_runs(runs["target_only"]),
        f"{100 * published['dann']:.1f}" if published.get("dann") is not None else "",
        "; ".join(sorted({r.hardware for r in of_it})),
    )
