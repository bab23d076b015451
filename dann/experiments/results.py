"""The results of many runs: a long table, a row a run and measure, and a short one to read."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas

from dann.experiments.reproduction import PlannedRun
from dann.experiments.sweep import agreement_of_runs
from dann.training.evaluate_run import tabulate_regret

COLUMNS = ["experiment", "method", "seed", "domains", "steps", "hardware", "measure", "value"]
_ACCURACIES = "accuracy", "balanced_accuracy"
BEST, CHOSEN = "oracle/best", "chosen/info_max"


def collect_results(runs: Sequence[PlannedRun]) -> pandas.DataFrame:
    """Reads the results of finished runs.

    The measures are `source/accuracy`, `target/accuracy` and the same as `.../balanced_accuracy` on
    the test sets, after the last step
    or with the weights that `selection.keep` chose; `seconds` and `cpu_seconds` of the training;
    `score/<score>`, the label-free scores of the final weights, with `score/agreement` of the seeds
    of a method; and, where the run has an oracle curve, `oracle/best`, the best target accuracy
    after any epoch, and `chosen/<score>`, the target accuracy after the epoch that a score puts
    first. Accuracies are in [0, 1], and target accuracies need target labels, so nothing is chosen
    by them.

    Returns:
        A table with the columns `experiment`, `method`, `seed`, `domains`, `steps`, `hardware`,
        `measure` and `value`.
    """
    seeds = {run.directory.path: ((run.experiment, run.method), run.seed) for run in runs}
    agreements = agreement_of_runs(seeds)
    rows = []
    for run in runs:
        measures = _measures(run)
        if run.directory.path in agreements:
            measures["score/agreement"] = agreements[run.directory.path]
        told = _run_columns(run)
        rows += [[*told, name, round(value, 6)] for name, value in measures.items()]
    return pandas.DataFrame(rows, columns=COLUMNS)


def format_results(results: pandas.DataFrame, published: Mapping[str, Any]) -> str:
    """Returns a table in Markdown, with a row for each method of each experiment.

    Its columns are the target accuracies in percent: after the last step, after the epochs that
    InfoMax and the oracle choose, and the published one; and the number of seeds.

    Args:
        results: As `collect_results` returns them. The table keeps their order.
        published: By experiment and method, a published target accuracy or `None`.
    """
    rows = []
    for experiment, of_experiment in results.groupby("experiment", sort=False):
        rows.append([f"**`{experiment}`**", *[""] * 5])
        figures = published.get(str(experiment)) or {}
        for method, runs in of_experiment.groupby("method", sort=False):
            of = {measure: part["value"] for measure, part in runs.groupby("measure")}
            told = [format_percent(of.get(name, ())) for name in ("target/accuracy", CHOSEN, BEST)]
            seeds = str(runs["seed"].nunique())
            rows.append([method, *told, format_percent([figures.get(method)]), seeds])
    heads = [
        "method",
        "last step",
        "InfoMax's epoch",
        "best epoch (needs labels)",
        "published",
        "seeds",
    ]
    return format_markdown_table(heads, rows)


def format_percent(values: Iterable[float | None]) -> str:
    """Returns the mean of shares in percent, with their sample standard deviation."""
    shares = 100 * pandas.Series(list(values), dtype=float).dropna()
    if shares.empty:
        return ""
    spread = f" ± {shares.std():.1f}" if len(shares) > 1 else ""
    return f"{shares.mean():.1f}{spread}"


def format_markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table of cells that have their text, without a line break at its end."""
    lines = [f"|{'|'.join(cells)}|" for cells in (heads, *rows)]
    lines.insert(1, "|" + "---|" * len(heads))
    return "\n".join(lines)


def _run_columns(run):
    summary = run.directory.summary()
    backend = summary.get("backend", "tensorflow")
    hardware = summary["hardware"] + ("" if backend == "tensorflow" else f", {backend}")
    domains = f"{summary['source']} → {summary['target']}"
    return run.experiment, run.method, run.seed, domains, summary["steps"], hardware


def _measures(run):
    summary = run.directory.summary()
    names = [f"{domain}/{one}" for one in _ACCURACIES for domain in ("source", "target")]
    names += ["seconds", "cpu_seconds"]
    scores = {
        name.replace("selection/", "score/"): value
        for name, value in summary.items()
        if name.startswith("selection/") and math.isfinite(value)
    }
    return {name: summary[name] for name in names if name in summary} | scores | _choices(run)


def _choices(run):
    """Target accuracies at the choice of each score, and the best, where the run has them."""
    try:
        found = tabulate_regret(run.directory.path)
    except (FileNotFoundError, ValueError):
        return {}
    if found.empty:
        return {}
    best = (found["accuracy"] + found["regret"]).max()
    return {BEST: best, **found["accuracy"].add_prefix("chosen/")}
