"""The results of planned runs: a table with one row per run."""

import math
from collections.abc import Sequence

import pandas

from dann.experiments.reproduction import PlannedRun
from dann.experiments.rows import read_agreement, read_predictions
from dann.training.evaluate_run import tabulate_regret

COLUMNS = ["experiment", "method", "seed", "domains", "steps", "hardware"]
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


def _measure_oracle(run):
    """Returns the target accuracies of the epochs that scores choose, if the run has a curve."""
    try:
        table = tabulate_regret(run.directory.path)
    except (FileNotFoundError, ValueError):
        return {}
    if table.empty:
        return {}
    best = (table["accuracy"] + table["regret"]).max()
    return {"oracle/best": best, **table["accuracy"].add_prefix("chosen/")}
