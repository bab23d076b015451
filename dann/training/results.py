"""The results of many runs: a line of a CSV file each, and the page that is made of them."""

import csv
import dataclasses
import json
import pathlib
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

_NAMES = {"source_only": "source only", "dann": "DANN", "target_only": "train on target (oracle)"}
_BEGINNING = """# Results

Made by `python scripts/reproduce.py`, which writes this page from
[results.csv](results.csv), a line a run. Accuracies are those after the last step, on the target's
test set; no checkpoint and no seed was picked. Target labels serve to fill these columns, and to
train the rows marked as an oracle; nothing else sees them.

"Gap closed" is (method - source only) / (train on target - source only), of the means. The spread
is the sample standard deviation over the seeds. Seconds are those of the training, their mean over
the seeds; "CPU" counts all threads.
"""


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
    )


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
    if bar is not None:
        lines += ["", f"First seen at {bar:.4f} or above on the target's test set, by seed:", ""]
        for method in order:
            lines.append(f"- {_NAMES.get(method, method)}: {_passings(methods[method])}")
    hardware = sorted({result.hardware for result in results})
    lines += ["", f"Hardware: {'; '.join(hardware)}.", ""]
    return "\n".join(lines)


def _row(method, results, means, published):
    accuracies = [result.target_accuracy for result in results]
    spread = f" ± {statistics.stdev(accuracies):.4f}" if len(results) > 1 else ""
    cells = [
        _NAMES.get(method, method),
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
