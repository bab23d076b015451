"""The page that is made of results, in Markdown."""

import statistics
from collections.abc import Mapping, Sequence

from dann.training.results import CHOICES, Result

_NAMES = {
    "source_only": "source only",
    "target_only": "train on target (oracle)",
    "cdan_e": "CDAN+E",
    "fdal": "f-DAL",
    "dirt_t": "DIRT-T",
}
_BEGINNING = """# Results

Made by `python scripts/reproduce.py`, which writes this page from
[results.csv](results.csv), a line a run. Accuracies are those after the last step, on the target's
test set; no checkpoint and no seed was picked. Target labels serve to fill these columns, and to
train the rows marked as an oracle; nothing else sees them.

"Gap closed" is (method - source only) / (train on target - source only), of the means. The spread
is the sample standard deviation over the seeds. Seconds are those of the training, their mean over
the seeds; "CPU" counts all threads.

The second table of a task has the mean target accuracy at the epoch that each score of
`dann.selection` puts first, chosen without target labels, beside that of the last epoch and that of
the best one, which only an oracle finds.
"""


def results_page(
    results: Sequence[Result],
    bars: Mapping[str, float],
    published: Mapping[str, Mapping[str, float]],
) -> str:
    """Returns the page of results, in Markdown.

    Args:
        results: The results.
        bars: Target accuracy by experiment whose first passing is told.
        published: Target accuracies of the literature, by experiment and method.
    """
    parts = [_BEGINNING]
    for experiment in dict.fromkeys(result.experiment for result in results):
        of_it = [result for result in results if result.experiment == experiment]
        parts.append(_section(experiment, of_it, bars.get(experiment), published.get(experiment)))
    return "\n".join(parts)


def _section(experiment, results, bar, published):
    methods = {}
    for result in results:
        methods.setdefault(result.method, []).append(result)
    means = {m: statistics.mean(r.target_accuracy for r in rs) for m, rs in methods.items()}
    order = sorted(methods, key=lambda m: (m == "target_only", m != "source_only", m))
    lines = [
        f"## {results[0].domains}",
        "",
        f"`python scripts/train.py experiment={experiment} method=...`",
        "",
        "| method | target accuracy | n | each seed | source accuracy | gap closed | steps "
        "| seconds | CPU seconds | published |",
        "|" + "---|" * 10,
    ]
    lines += [_row(m, sorted(methods[m], key=lambda r: r.seed), means, published) for m in order]
    lines += _chosen(methods, order)
    if bar is not None:
        lines += ["", f"First seen at {bar:.4f} or above on the target's test set, by seed:", ""]
        for method in order:
            lines.append(f"- {_name(method)}: {_passings(methods[method])}")
    hardware = sorted({result.hardware for result in results})
    lines += ["", f"Hardware: {'; '.join(hardware)}.", ""]
    return "\n".join(lines)


def _row(method, results, means, published):
    accuracies = [result.target_accuracy for result in results]
    spread = f" ± {statistics.stdev(accuracies):.4f}" if len(results) > 1 else ""
    cells = [
        _name(method),
        f"{means[method]:.4f}{spread}",
        str(len(results)),
        " ".join(f"{result.seed}: {result.target_accuracy:.4f}" for result in results),
        f"{statistics.mean(result.source_accuracy for result in results):.4f}",
        _gap_closed(method, means),
        " ".join(f"{steps:,}" for steps in sorted({result.steps for result in results})),
        f"{statistics.mean(result.seconds for result in results):,.0f}",
        f"{statistics.mean(result.cpu_seconds for result in results):,.0f}",
        f"{published[method]:.4f}" if published and method in published else "",
    ]
    return f"| {' | '.join(cells)} |"


def _name(method):
    name, *arguments = method.split()
    return ", ".join([_NAMES.get(name, name.upper()), *arguments])


def _chosen(methods, order):
    """Lines of the table of the scores' choices, for the methods whose every run has them."""
    columns = ["target_accuracy", *CHOICES.values(), "oracle_best"]
    titles = ["last", *CHOICES, "best (oracle)"]
    rows = []
    for method in order:
        values = [[getattr(result, column) for result in methods[method]] for column in columns]
        if not any(None in of_column for of_column in values):
            means = " | ".join(f"{statistics.mean(of_column):.4f}" for of_column in values)
            rows.append(f"| {_name(method)} | {means} |")
    if not rows:
        return []
    return ["", f"| epoch chosen by | {' | '.join(titles)} |", "|" + "---|" * 9, *rows]


def _gap_closed(method, means):
    if method in ("source_only", "target_only") or not {"source_only", "target_only"} <= set(means):
        return ""
    gap = means["target_only"] - means["source_only"]
    if gap <= 0:
        return ""
    return f"{(means[method] - means['source_only']) / gap:.1%}"


def _passings(results):
    told = []
    for r in sorted(results, key=lambda r: r.seed):
        cost = "never"
        if r.steps_to_bar is not None:
            cost = f"after {r.steps_to_bar:,} steps, {r.cpu_seconds_to_bar:,.0f} CPU seconds"
        told.append(f"seed {r.seed} {cost}")
    return "; ".join(told)
