"""The results of planned runs: a table with one row per run, and a short summary."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas

from dann.experiments.reproduction import PlannedRun
from dann.experiments.rows import read_agreement, read_predictions
from dann.training.evaluate_run import tabulate_regret

COLUMNS = ["experiment", "method", "seed", "domains", "steps", "hardware"]
BEST, CHOSEN = "oracle/best", "chosen/info_max"
_MEASURES = (
    "source/accuracy",
    "target/accuracy",
    "source/balanced_accuracy",
    "target/balanced_accuracy",
    "seconds",
    "cpu_seconds",
)


def collect_results(runs: Sequence[PlannedRun]) -> pandas.DataFrame:
    """Reads the results of finished runs into one table.

    The measures are:

    - `source/accuracy`, `target/accuracy`, `source/balanced_accuracy` and
      `target/balanced_accuracy` on the test sets, in [0, 1], with the final weights
    - `seconds` and `cpu_seconds` of the training
    - `score/<score>`: the label-free scores of the final weights, and `score/agreement` between the
      seeds of a method
    - for runs with an oracle curve, `oracle/best`, the best target accuracy of all epochs, and
      `chosen/<score>`, the target accuracy of the epoch with the best score

    Target accuracies need target labels, so nothing is chosen by them.

    Args:
        runs: Finished runs.

    Returns:
        A frame with one row per run, the columns `experiment`, `method`, `seed`, `domains`, `steps`
        and `hardware`, and one column per measure.
    """
    seeds = {run.directory.path: ((run.experiment, run.method), run.seed) for run in runs}
    agreements = read_agreement(seeds, read_predictions(seeds))
    rows = []
    for run in runs:
        summary = run.directory.summary()
        backend = summary.get("backend", "tensorflow")
        hardware = summary["hardware"] + ("" if backend == "tensorflow" else f", {backend}")
        domains = f"{summary['source']} → {summary['target']}"
        values = run.experiment, run.method, run.seed, domains, summary["steps"], hardware
        measures = {name: summary[name] for name in _MEASURES if name in summary}
        for name, value in summary.items():
            # A diverged run has scores of -inf, which a mean cannot include.
            if name.startswith("selection/") and math.isfinite(value):
                measures[name.replace("selection/", "score/")] = value
        measures |= _measure_oracle(run)
        if run.directory.path in agreements:
            measures["score/agreement"] = agreements[run.directory.path]
        rows.append(dict(zip(COLUMNS, values, strict=True)) | measures)
    # Six digits, so that the file does not change with the last bits.
    return pandas.DataFrame(rows, columns=None if rows else COLUMNS).round(6)


def format_results(results: pandas.DataFrame, published: Mapping[str, Any]) -> str:
    """Formats results as a Markdown table with one row per method of each experiment.

    The columns are the mean target accuracies in percent after the last step, after the epoch that
    InfoMax chooses, after the best epoch, and as published; and the number of seeds.

    Args:
        results: Table from `collect_results`. The summary keeps its order.
        published: By experiment and method, a published target accuracy in [0, 1] or `None`.
    """
    rows = []
    for experiment, experiment_rows in results.groupby("experiment", sort=False):
        rows.append([f"**`{experiment}`**", *[""] * 5])
        accuracies: Any = published.get(str(experiment)) or {}
        for method, group in experiment_rows.groupby("method", sort=False):
            runs: Any = group
            cells = [
                format_percent(runs.get(name, ())) for name in ("target/accuracy", CHOSEN, BEST)
            ]
            seeds = str(runs["seed"].nunique())
            rows.append([method, *cells, format_percent([accuracies.get(method)]), seeds])
    headers = [
        "method",
        "last step",
        "epoch chosen by InfoMax",
        "best epoch (needs labels)",
        "published",
        "seeds",
    ]
    return format_markdown_table(headers, rows)


def format_percent(values: Iterable[float | None]) -> str:
    """Formats the mean of shares in percent, with the sample standard deviation of several."""
    percent = 100 * pandas.Series(list(values), dtype=float).dropna()
    if percent.empty:
        return ""
    spread = f" ± {percent.std():.1f}" if len(percent) > 1 else ""
    return f"{percent.mean():.1f}{spread}"


def format_markdown_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Formats cells of text as a Markdown table, without a final line break."""
    lines = [f"|{'|'.join(cells)}|" for cells in (headers, *rows)]
    lines.insert(1, "|" + "---|" * len(headers))
    return "\n".join(lines)


def _measure_oracle(run):
    """Returns the target accuracies of the epochs that scores choose, if the run has a curve."""
    try:
        table = tabulate_regret(run.directory.path)
    except (FileNotFoundError, ValueError):
        return {}
    if table.empty:
        return {}
    best = (table["accuracy"] + table["regret"]).max()
    return {BEST: best, **table["accuracy"].add_prefix("chosen/")}
