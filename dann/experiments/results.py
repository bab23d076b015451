"""The results of many runs, a line of a CSV file each."""

import csv
import dataclasses
import json
import pathlib
from collections.abc import Sequence
from typing import Any

# The scores whose choice of an epoch is told, and the columns that hold it.
CHOICES = {
    "source_accuracy": "at_source_accuracy",
    "entropy": "at_entropy",
    "info_max": "at_info_max",
    "snd": "at_snd",
    "bnm": "at_bnm",
    "mcc": "at_mcc",
}


@dataclasses.dataclass(frozen=True)
class Result:
    """What one run came to.

    Args:
        experiment: Name of the experiment.
        method: Name of the method.
        seed: Seed.
        settings: Digest of all other settings.
        domains: Both domains in one phrase.
        steps: Training steps.
        source_accuracy: Source test accuracy after the last step, in [0, 1].
        target_accuracy: The same of the target: the oracle's column.
        seconds: Wall time of the training.
        cpu_seconds: CPU time of the training, all threads.
        steps_to_bar: Steps after which the target accuracy was first seen at the experiment's bar
            or above; `None` if it was not.
        cpu_seconds_to_bar: CPU time until then.
        hardware: What it ran on.
        oracle_best: Best target accuracy after any epoch; `None` where the run has no oracle curve.
        at_source_accuracy: Target accuracy after the epoch that this score puts first, or `None`.
        at_entropy: The same of the entropy.
        at_info_max: The same of InfoMax.
        at_snd: The same of the soft neighbourhood density.
        at_bnm: The same of the batch nuclear norm.
        at_mcc: The same of the class confusion.
    """

    experiment: str
    method: str
    seed: int
    settings: str
    domains: str
    steps: int
    source_accuracy: float
    target_accuracy: float
    seconds: float
    cpu_seconds: float
    steps_to_bar: int | None
    cpu_seconds_to_bar: float | None
    hardware: str
    oracle_best: float | None = None
    at_source_accuracy: float | None = None
    at_entropy: float | None = None
    at_info_max: float | None = None
    at_snd: float | None = None
    at_bnm: float | None = None
    at_mcc: float | None = None


def result_of_run(
    directory: str | pathlib.Path,
    experiment: str,
    method: str,
    settings: str,
    bar: float | None = None,
) -> Result:
    """Reads the result of a finished run from its directory.

    Args:
        directory: The run directory.
        experiment: Name of the experiment.
        method: Name of the method.
        settings: Digest of its settings.
        bar: Target accuracy whose first passing is looked up in `oracle.csv`, if that is there.
    """
    directory = pathlib.Path(directory)
    summary = json.loads((directory / "summary.json").read_text())
    passed = None
    if bar is not None and (directory / "oracle.csv").is_file():
        with (directory / "oracle.csv").open(newline="") as file:
            rows = csv.DictReader(file)
            passed = next((row for row in rows if float(row["target/accuracy"]) >= bar), None)
    return Result(
        experiment=experiment,
        method=method,
        seed=summary["seed"],
        settings=settings,
        domains=f"{summary['source']} → {summary['target']}",
        steps=summary["steps"],
        source_accuracy=round(summary["source/accuracy"], 6),
        target_accuracy=round(summary["target/accuracy"], 6),
        seconds=summary["seconds"],
        cpu_seconds=summary["cpu_seconds"],
        steps_to_bar=int(passed["step"]) if passed else None,
        cpu_seconds_to_bar=float(passed["cpu_seconds"]) if passed else None,
        hardware=summary["hardware"],
        **_choices(directory),
    )


def _choices(directory) -> dict[str, float]:
    """Target accuracies at the choice of each score, and the best, where the run has them."""
    from dann.training.evaluate_run import evaluate_run  # loads Keras, which no table needs

    try:
        evaluation = evaluate_run(directory).scores
    except (FileNotFoundError, ValueError):
        return {}
    found = {CHOICES[name]: of["accuracy"] for name, of in evaluation.items() if name in CHOICES}
    best = max(of["accuracy"] + of["regret"] for of in evaluation.values())
    return {name: round(value, 6) for name, value in {"oracle_best": best, **found}.items()}


def read_results(path: str | pathlib.Path) -> list[Result]:
    """Reads the CSV file of results; none if it is not there.

    Raises:
        ValueError: If it has other columns.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        return []
    fields = dataclasses.fields(Result)
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        if rows.fieldnames != [field.name for field in fields]:
            raise ValueError(
                f"{path} must have the columns {[field.name for field in fields]}. "
                f"Received: {rows.fieldnames}"
            )
        return [_result({f.name: _parsed(row[f.name], f.type) for f in fields}) for row in rows]


def _result(values: dict[str, Any]) -> Result:
    return Result(**values)


def _parsed(text, kind: Any):
    for number in (int, float):
        if kind in (number, number | None):
            return number(text) if text else None
    return text


def write_results(results: Sequence[Result], path: str | pathlib.Path) -> None:
    """Writes the CSV file of results, sorted; of two of one run the later one stays."""
    latest = {(r.experiment, r.method, r.seed): r for r in results}
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    with beside.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([field.name for field in dataclasses.fields(Result)])
        writer.writerows(dataclasses.astuple(latest[key]) for key in sorted(latest))
    beside.replace(path)
