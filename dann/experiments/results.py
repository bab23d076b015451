"""The results of many runs: a long table, a row a run and measure, and a short one to read."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas

from dann.experiments.reproduction import PlannedRun
from dann.experiments.sweep import agreement_of_runs
from dann.training.evaluate_run import evaluate_run

COLUMNS = ["experiment", "method", "seed", "domains", "steps", "hardware", "measure", "value"]
BEST, CHOSEN = "oracle/best", "chosen/info_max"


def results_of(runs: Sequence[PlannedRun]) -> pandas.DataFrame:
    """Reads the results of finished runs.

    The measures are `source/accuracy` and `target/accuracy` on the test sets, after the last step
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


def summary_table(results: pandas.DataFrame, published: Mapping[str, Any]) -> str:
    """Returns a table in Markdown for each experiment, with a row for each method.

    Args:
        results: As `results_of` returns them.
        published: By experiment and method, a published target accuracy or `None`.
    """
    parts = []
    for experiment, of_experiment in results.groupby("experiment"):
        figures = published.get(str(experiment), {})
        rows = [
            _row(method, runs, figures.get(method))
            for method, runs in of_experiment.groupby("method", sort=False)
        ]
        domains = of_experiment["domains"].iloc[0]
        heads = ["method", "seeds", "last step, %", "InfoMax's epoch, %", "best epoch (oracle), %"]
        heads += ["published, %", "CPU minutes"]
        parts.append(f"## {experiment}\n\n{domains}\n\n{markdown_table(heads, rows)}\n")
    return "\n".join(parts)


def percent(values: Iterable[float]) -> str:
    """Returns the mean of shares in percent, with their sample standard deviation."""
    shares = 100 * pandas.Series(list(values), dtype=float)
    if shares.empty:
        return ""
    spread = f" ± {shares.std():.1f}" if len(shares) > 1 else ""
    return f"{shares.mean():.1f}{spread}"


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table of cells that have their text, without a line break at its end."""
    lines = [f"| {' | '.join(cells)} |" for cells in (heads, *rows)]
    lines.insert(1, "|" + "---|" * len(heads))
    return "\n".join(lines)


def _row(method, runs, published):
    of = {measure: part["value"] for measure, part in runs.groupby("measure")}
    seeds = ", ".join(str(seed) for seed in sorted(runs["seed"].unique()))
    accuracies = [percent(of.get(name, ())) for name in ("target/accuracy", CHOSEN, BEST)]
    minutes = f"{of['cpu_seconds'].mean() / 60:.1f}"
    return [method, seeds, *accuracies, percent([published] if published else []), minutes]


def _run_columns(run):
    summary = run.directory.summary()
    backend = summary.get("backend", "tensorflow")
    hardware = summary["hardware"] + ("" if backend == "tensorflow" else f", {backend}")
    domains = f"{summary['source']} → {summary['target']}"
    return run.experiment, run.method, run.seed, domains, summary["steps"], hardware


def _measures(run):
    summary = run.directory.summary()
    names = ("source/accuracy", "target/accuracy", "seconds", "cpu_seconds")
    scores = {
        name.replace("selection/", "score/"): value
        for name, value in summary.items()
        if name.startswith("selection/") and math.isfinite(value)
    }
    return {name: summary[name] for name in names if name in summary} | scores | _choices(run)


def _choices(run):
    """Target accuracies at the choice of each score, and the best, where the run has them."""
    try:
        scores = evaluate_run(run.directory.path).scores
    except (FileNotFoundError, ValueError):
        return {}
    best = max(of["accuracy"] + of["regret"] for of in scores.values())
    return {BEST: best} | {f"chosen/{name}": of["accuracy"] for name, of in scores.items()}
