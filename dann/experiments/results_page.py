"""The page that is made of results, in Markdown."""

import collections
import statistics
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from dann.experiments.results import CHOICES, Result

_NAMES = {
    "source_only": "source only",
    "target_only": "train on target (oracle)",
    "cdan_e": "CDAN+E",
    "fdal": "f-DAL",
    "dirt_t": "DIRT-T",
}
_BEGINNING = """# Results

Made by `{command}`, which writes this page from
[{table}]({table}), a line a run. Accuracies are those after the last step, on the target's
test set; no checkpoint and no seed was picked. Target labels serve to fill these columns and to
train the rows marked as an oracle; no other training and no score reads them. How the settings were
chosen, and what had been seen by then, is told in `conf/experiment/recipe.yaml` and, for the
experiments `digits_...`, in `digits_recipe.yaml` beside it; but for source only and the
oracle, these blend source images with unlabelled target images.

"Gap closed" is (method - source only) / (train on target - source only), of the means; it is left
out where that gap is no larger than the spread of either. The spread is the sample standard
deviation over the seeds. Seconds are those of the training, their mean over the seeds; "CPU"
counts all threads. The column "first" has the steps and CPU seconds after which each seed's target
accuracy was first seen at the number in its head, or above.

The second table of a task has the mean target accuracy at the epoch that each score of
`dann.selection` puts first, chosen without target labels, beside that of the last epoch and that of
the best one, which only an oracle finds.
"""


def results_page(
    results: Sequence[Result],
    bars: Mapping[str, float],
    published: Mapping[str, Mapping[str, float]],
    notes: Mapping[str, str] = MappingProxyType({}),
    table: str = "results.csv",
    overrides: Sequence[str] = (),
) -> str:
    """Returns the page of results, in Markdown.

    Args:
        results: The results.
        bars: Target accuracy by experiment whose first passing is told.
        published: Target accuracies of the literature, by experiment and method.
        notes: What is to be said of an experiment, by its name.
        table: Name of the file of results beside the page.
        overrides: More arguments that every run had.
    """
    more = f" 'overrides=[{','.join(overrides)}]'" if overrides else ""
    parts = [_BEGINNING.format(command=f"python scripts/reproduce.py{more}", table=table)]
    for experiment, title in _titles(results).items():
        of_it = [result for result in results if result.experiment == experiment]
        command = " ".join([f"experiment={experiment}", "method=...", *overrides])
        section = _section(title, command, of_it, bars.get(experiment), published.get(experiment))
        note = notes.get(experiment)
        parts.append(f"{section}\n{note.strip()}\n" if note else section)
    return "\n".join(parts)


def _titles(results):
    """Its domains are an experiment's title, with its name where another one has them too."""
    domains = {result.experiment: result.domains for result in results}
    shared = [pair for pair, times in collections.Counter(domains.values()).items() if times > 1]
    return {e: f"{pair} ({e})" if pair in shared else pair for e, pair in domains.items()}


def _section(title, command, results, bar, published):
    methods = {}
    for result in results:
        methods.setdefault(result.method, []).append(result)
    accuracies = {m: [r.target_accuracy for r in rs] for m, rs in methods.items()}
    order = sorted(methods, key=lambda m: (m == "target_only", m != "source_only", m))
    names = _names(results)
    lines = [
        f"## {title}",
        "",
        f"`python scripts/train.py {command}`",
        "",
        "| method | target accuracy | n | each seed | source accuracy | gap closed | steps "
        "| seconds | CPU seconds | published |" + ("" if bar is None else f" first {bar:.4f} |"),
        "|" + "---|" * (10 if bar is None else 11),
    ]
    for method in order:
        of_it = sorted(methods[method], key=lambda r: r.seed)
        passings = "" if bar is None else f" {_passings(of_it)} |"
        row = _row(names[method], of_it, _gap_closed(method, accuracies), published)
        lines.append(row + passings)
    lines += _chosen(methods, order, names)
    hardware = sorted({result.hardware for result in results})
    lines += ["", f"Hardware: {'; '.join(hardware)}.", ""]
    return "\n".join(lines)


def _row(name, results, gap_closed, published):
    method = results[0].method
    accuracies = [result.target_accuracy for result in results]
    spread = f" ± {statistics.stdev(accuracies):.4f}" if len(results) > 1 else ""
    cells = [
        name,
        f"{statistics.mean(accuracies):.4f}{spread}",
        str(len(results)),
        " ".join(f"{result.seed}: {result.target_accuracy:.4f}" for result in results),
        f"{statistics.mean(result.source_accuracy for result in results):.4f}",
        gap_closed,
        " ".join(f"{steps:,}" for steps in sorted({result.steps for result in results})),
        f"{statistics.mean(result.seconds for result in results):,.0f}",
        f"{statistics.mean(result.cpu_seconds for result in results):,.0f}",
        f"{published[method]:.4f}" if published and method in published else "",
    ]
    return f"| {' | '.join(cells)} |"


def _names(results):
    """What rows are called, by method; a second stage is after the row that taught it."""
    by_settings = {result.settings: result.method for result in results}
    return {result.method: _name(result.method, by_settings) for result in results}


def _name(method, first_stages):
    name, *arguments = method.split()
    told = [_told(argument, first_stages) for argument in arguments]
    return ", ".join([_NAMES.get(name, name.upper()), *told])


def _told(argument, first_stages):
    key, _, value = argument.partition("=")
    for part in value.split("/") if key == "method.teacher" else ():
        if part in first_stages:
            return f"after {_name(first_stages[part], {})}"
    return argument


def _chosen(methods, order, names):
    """Lines of the table of the scores' choices, for the methods whose every run has them."""
    columns = ["target_accuracy", *CHOICES.values(), "oracle_best"]
    titles = ["last", *CHOICES, "best (oracle)"]
    rows = []
    for method in order:
        values = [[getattr(result, column) for result in methods[method]] for column in columns]
        if not any(None in of_column for of_column in values):
            means = " | ".join(f"{statistics.mean(of_column):.4f}" for of_column in values)
            rows.append(f"| {names[method]} | {means} |")
    if not rows:
        return []
    return ["", f"| epoch chosen by | {' | '.join(titles)} |", "|" + "---|" * 9, *rows]


def _gap_closed(method, accuracies):
    ends = [accuracies.get(end, []) for end in ("source_only", "target_only")]
    if method in ("source_only", "target_only") or not all(ends):
        return ""
    low, high = map(statistics.mean, ends)
    spread = max(statistics.stdev(end) if len(end) > 1 else 0.0 for end in ends)
    if high - low <= spread:
        return ""
    return f"{(statistics.mean(accuracies[method]) - low) / (high - low):.1%}"


def _passings(results):
    told = []
    for r in results:
        cost = "never"
        if r.steps_to_bar is not None:
            cost = f"{r.steps_to_bar:,} steps, {r.cpu_seconds_to_bar:,.0f} s"
        told.append(f"{r.seed}: {cost}")
    return "; ".join(told)
