"""The results of many runs, in a long table: a row a run and measure.

A new measure adds rows, so older files without it still load.
"""

import csv
import dataclasses
import math
import pathlib
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from dann.training.files_on_disk import atomic_write
from dann.training.run_directory import RunDirectory

CHOSEN = "chosen/"  # and the name of a score
SCORE = "score/"  # likewise
_COLUMNS = ["measure", "value"]
# Until 0.1.0 a run had one row, with these columns for what is a measure now.
_WIDE = {
    "source_accuracy": "source/accuracy",
    "target_accuracy": "target/accuracy",
    "seconds": "seconds",
    "cpu_seconds": "cpu_seconds",
    "steps_to_bar": "bar/steps",
    "cpu_seconds_to_bar": "bar/cpu_seconds",
    "oracle_best": "oracle/best",
}


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of one run.

    Args:
        experiment: Name of the experiment.
        method: Name of the method, with its own arguments.
        seed: Seed. Experiment, method and seed name a run.
        settings: Digest of all other settings.
        domains: Both domains in one phrase.
        steps: Training steps.
        hardware: What it ran on, and the Keras backend where that is not TensorFlow.
        measures: Numbers by name. Accuracies are in [0, 1] and those of the target an oracle's.
            `source/accuracy` and `target/accuracy` are on the test sets, after the last step, or
            with the weights that `selection.keep` chose; `seconds` and `cpu_seconds` are the wall
            and CPU time of the training. Where the run has them: `bar/steps` and
            `bar/cpu_seconds`, until the target accuracy was first seen at the experiment's bar or
            above; `oracle/best`, the best target accuracy after any epoch; `chosen/<score>`, the
            target accuracy after the epoch that this score puts first; `score/<score>`, the score
            of the final weights.
    """

    experiment: str
    method: str
    seed: int
    settings: str
    domains: str
    steps: int
    hardware: str
    measures: Mapping[str, float]

    @property
    def key(self) -> tuple[str, str, int]:
        """What names the run: experiment, method and seed."""
        return self.experiment, self.method, self.seed

    @property
    def target_accuracy(self) -> float:
        """Accuracy of the final weights on the target's test set."""
        return self.measures["target/accuracy"]

    @property
    def is_oracle(self) -> bool:
        """Whether it was trained on the target's labels."""
        return self.method.partition(" ")[0] == "target_only"

    @property
    def backend(self) -> str:
        """The Keras backend that it ran on."""
        last = self.hardware.rpartition(", ")[2]
        return last if last in ("jax", "torch") else "tensorflow"


_RUN = [field.name for field in dataclasses.fields(Result) if field.name != "measures"]
_NUMBERS = {"seed": int, "steps": int}


def mean_measure(results: Sequence[Result], measure: str) -> float | None:
    """Returns the mean of a measure over runs, `None` if there are none or one lacks it."""
    values = [result.measures.get(measure) for result in results]
    known = [value for value in values if value is not None]
    return statistics.mean(known) if known and len(known) == len(values) else None


def points_gained(results: Sequence[Result], others: Sequence[Result]) -> list[float]:
    """Returns how much target accuracy runs gain over others with the same seed, in points.

    Args:
        results: Runs of one row.
        others: Runs of another row.

    Returns:
        100 * (target accuracy - target accuracy of the other), in the order of `results`, without
        the seeds that only one of the rows has.
    """
    other = {result.seed: result.target_accuracy for result in others}
    return [
        100 * (result.target_accuracy - other[result.seed])
        for result in results
        if result.seed in other
    ]


def percent_of_runs(results: Sequence[Result]) -> str:
    """Returns the mean target accuracy in percent, with its standard deviation over the runs.

    The sample standard deviation is left out for one run; without any run the text is empty.
    """
    shares = [100 * result.target_accuracy for result in results]
    if not shares:
        return ""
    spread = f" ± {statistics.stdev(shares):.1f}" if len(shares) > 1 else ""
    return f"{statistics.mean(shares):.1f}{spread}"


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
        experiment: As in `Result`.
        method: As in `Result`.
        settings: As in `Result`.
        bar: Target accuracy; the result holds when the oracle curve first reaches it.
    """
    run = RunDirectory(directory)
    summary = run.summary()
    measures = {key: round(summary[key], 6) for key in ("source/accuracy", "target/accuracy")}
    measures |= {key: summary[key] for key in ("seconds", "cpu_seconds")}
    return Result(
        experiment=experiment,
        method=method,
        seed=summary["seed"],
        settings=settings,
        domains=f"{summary['source']} → {summary['target']}",
        steps=summary["steps"],
        hardware=_hardware(summary),
        measures={
            **measures,
            **_first_passing(run, bar),
            **_choices(run),
            **_final_scores(summary),
        },
    )


def _hardware(summary) -> str:
    """The hardware, and the backend where it is not the default; older runs do not tell it."""
    backend = summary.get("backend", "tensorflow")
    return ", ".join([summary["hardware"], *([] if backend == "tensorflow" else [backend])])


def _first_passing(run, bar) -> dict[str, float]:
    """When the target accuracy was first seen at the bar or above."""
    try:
        curve = run.oracle_curve() if bar is not None else {}
    except FileNotFoundError:
        return {}
    names = ("target/accuracy", "step", "cpu_seconds")
    columns = (map(float, curve.get(name, ())) for name in names)
    for accuracy, *cost in zip(*columns, strict=True):
        if accuracy >= bar:
            return dict(zip(("bar/steps", "bar/cpu_seconds"), cost, strict=True))
    return {}


def _final_scores(summary) -> dict[str, float]:
    """The label-free scores of the weights that the run ended with, where they are finite."""
    prefix = "selection/"
    found = {name.removeprefix(prefix): v for name, v in summary.items() if name.startswith(prefix)}
    return {f"{SCORE}{name}": round(v, 6) for name, v in found.items() if math.isfinite(v)}


def _choices(run) -> dict[str, float]:
    """Target accuracies at the choice of each score, and the best, where the run has them."""
    from dann.training.evaluate_run import evaluate_curves, read_curves  # loads Keras

    try:
        scores = evaluate_curves(read_curves(run.path)).scores
    except (FileNotFoundError, ValueError):
        return {}
    found = {"oracle/best": max(of["accuracy"] + of["regret"] for of in scores.values())}
    found |= {f"{CHOSEN}{name}": of["accuracy"] for name, of in scores.items()}
    return {name: round(value, 6) for name, value in found.items()}


def read_results(path: str | pathlib.Path) -> list[Result]:
    """Reads a CSV file of results, a row a run and measure; none if it is not there.

    Files of earlier versions, with one row a run and a column a measure, are read as well.

    Raises:
        ValueError: If it has other columns, a row holds no finite number or names no method or
            measure, or rows of one run have the same measure or differ in settings, steps or
            hardware.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        columns = rows.fieldnames or []
        measures_of = _measures_of(columns)
        if not set(_RUN) <= set(columns) or measures_of is None:
            raise ValueError(
                f"{path} must have the columns {[*_RUN, *_COLUMNS]}. Received: {list(columns)}"
            )
        runs: dict[tuple, Result] = {}
        for row in rows:
            try:
                run: dict[str, Any] = {name: _NUMBERS.get(name, str)(row[name]) for name in _RUN}
                measures = {name: float(value) for name, value in measures_of(row)}
                named = all([run["method"], *measures])
                complete = named and all(map(math.isfinite, measures.values()))
            except (TypeError, ValueError):
                complete = False
            if not complete:
                raise ValueError(
                    f"{path} must hold names of a method and a measure, and finite numbers for "
                    "`seed`, `steps` and the measure. "
                    f"Received in line {rows.line_num}: {list(row.values())}"
                )
            result = Result(**run, measures=measures)
            before = runs.setdefault(result.key, result)
            twice = before is not result and measures.keys() & before.measures.keys()
            if twice or dataclasses.replace(before, measures=measures) != result:
                raise ValueError(
                    f"{path} must have the same {_RUN[3:]} in all rows of a run, and each measure "
                    f"once. Received in line "
                    f"{rows.line_num}: {list(run.values())}, and before: "
                    f"{[getattr(before, name) for name in _RUN]}"
                )
            together = {**before.measures, **measures}
            runs[result.key] = dataclasses.replace(before, measures=together)
    return [*runs.values()]


def _measures_of(columns):
    """From a row to its measures, by the kind of the table; `None` if it is of neither kind."""
    others = [column for column in columns if column not in _RUN]
    if sorted(others) == sorted(_COLUMNS):
        return lambda row: [(row["measure"], row["value"])]
    names = {c: _WIDE.get(c, c.replace("at_", CHOSEN, 1)) for c in others}
    if "target_accuracy" in names and all(c in _WIDE or c.startswith("at_") for c in names):
        return lambda row: [(name, row[c]) for c, name in names.items() if row[c] != ""]
    return None


def write_results(results: Sequence[Result], path: str | pathlib.Path) -> None:
    """Writes the CSV file of results, sorted. A run's later result replaces its earlier one."""
    latest = {result.key: result for result in results}
    with atomic_write(pathlib.Path(path)) as draft, draft.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*_RUN, *_COLUMNS])
        for result in (latest[key] for key in sorted(latest)):
            run = [getattr(result, name) for name in _RUN]
            writer.writerows([*run, name, value] for name, value in result.measures.items())
