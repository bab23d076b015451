"""The runs of a sweep, ranked without target labels."""

import contextlib
import csv
import math
import pathlib
import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from dann.selection import agreement
from dann.training.checkpoints import atomic_write
from dann.training.run_directory import RunDirectory

AGREEMENT = "selection/agreement"
_OF_EQUALS = "selection/info_max"
_RUN = ("rank", "run", "overrides")


def rank_sweep(
    directory: str | pathlib.Path, score: str, overrides: Mapping[str, Sequence[str]]
) -> str | None:
    """Ranks the runs of a sweep by a label-free score and writes `sweep.csv` and `sweep.png`.

    The score `"agreement"` is `dann.selection.agreement` of the runs that differ in the seed alone.
    Runs that agree equally, as two do, are ranked by InfoMax. The whole sweep is, and says so, if a
    run has no other to agree with.

    The table has a row for each run and measure, the best run first, with the columns `rank`,
    `run`, `overrides`, `measure` and `value`. The measures of a run are the label-free scores of
    its summary, such as `selection/info_max`, its agreement if it has one, `source/accuracy` and
    `target/accuracy`. Of runs with the same score the earlier comes first. A failed run has one
    row, without a measure.

    Target accuracies need target labels, so nothing is ranked by them. They are shown, and give the
    regret: the best of the column minus that of the run that the score puts first. A run that
    learned from the target's labels has no rank and is left out of the regret.

    Args:
        directory: Folder of the sweep.
        score: The score to rank by, `"agreement"` or one of every run, such as `"info_max"`.
        overrides: Command-line arguments of each run that was begun, by its folder in `directory`.

    Returns:
        The table as text, or `None` if no run is finished and has that score.
    """
    directory = pathlib.Path(directory)
    seeds = {directory / run: _settings_and_seed(one) for run, one in overrides.items()}
    agreements = agreement_of_runs(seeds)
    rows = [
        _row(directory, run, arguments, agreements.get(directory / run))
        for run, arguments in overrides.items()
    ]
    candidates = [row for row in rows if not row.get("oracle", True)]
    key = _usable_score(f"selection/{score}", candidates)
    ranked = [row for row in candidates if key in row]
    if not ranked:
        return None
    keys = (key, _OF_EQUALS) if key == AGREEMENT else (key,)
    ranked.sort(key=lambda row: [_last_if_nan(row.get(one, 0.0)) for one in keys])
    for rank, row in enumerate(ranked, start=1):
        row["rank"] = rank
    others = [row for row in rows if "rank" not in row]
    _write(ranked + others, directory / "sweep.csv")
    _save_figure(ranked, key, directory / "sweep.png")
    return _as_text(ranked, others, key)


def agreement_of_runs(
    runs: Mapping[pathlib.Path, tuple[Hashable, Hashable]],
) -> dict[pathlib.Path, float]:
    """Returns how far each run agrees on the target's classes with other seeds of its settings.

    A run that has no other to be compared with, that is, a finished one with the same settings,
    another seed and the same target examples, is left out, and so is one that learned from the
    target's labels or whose file of classes cannot be read.

    Args:
        runs: The settings of each run, without the seed, and its seed, by its directory.
    """
    alike: dict[Hashable, dict[Hashable, tuple[pathlib.Path, Any]]] = {}
    for path, (settings, seed) in runs.items():
        run = RunDirectory(path)
        with contextlib.suppress(FileNotFoundError, ValueError):
            digest, classes = run.target_classes()
            if not run.summary()["oracle"]:
                alike.setdefault((settings, digest), {}).setdefault(seed, (path, classes))
    found = {}
    for group in alike.values():
        if len(group) > 1:
            paths, classes = zip(*group.values(), strict=True)
            found.update(zip(paths, agreement(classes), strict=True))
    return found


def _usable_score(key, candidates):
    """The score to rank by: InfoMax if runs without a second seed have no agreement."""
    alone = [row["run"] for row in candidates if AGREEMENT not in row]
    if key != AGREEMENT or not alone or not any(_OF_EQUALS in row for row in candidates):
        return key
    those = "" if len(alone) == len(candidates) else f"; one seed: {', '.join(alone)}"
    print(f"Ranked by {_OF_EQUALS}: agreement needs several seeds of each setting{those}")
    return _OF_EQUALS


def _last_if_nan(score):
    """The place of a score in an order from the best down."""
    return math.inf if math.isnan(score) else -score


def _settings_and_seed(arguments):
    """What a run's arguments say without the seed, and the seed."""
    seeds = [one for one in arguments if re.match(r"\+{0,2}seed=", one)]
    others = tuple(one for one in arguments if one not in seeds)
    return others, seeds[-1].partition("=")[2] if seeds else None


def _row(directory, run, arguments, agrees) -> dict[str, Any]:
    row: dict[str, Any] = {"run": run, "overrides": " ".join(arguments)}
    finished = RunDirectory(directory / run)
    if finished.is_finished():
        summary = finished.summary()
        row |= {name: value for name, value in summary.items() if name.startswith("selection/")}
        told = ("oracle", "source/accuracy", "target/accuracy")
        row |= {name: summary[name] for name in told if name in summary}
    if agrees is not None:
        row[AGREEMENT] = agrees
    return row


def _write(rows, path):
    with atomic_write(path) as draft, draft.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*_RUN, "measure", "value"])
        for row in rows:
            run = [row.get(column, "") for column in _RUN]
            measures = [(name, row[name]) for name in row if "/" in name]
            writer.writerows([*run, *measure] for measure in measures or [("", "")])


def _as_text(ranked, others, key):
    width = max(len(row["overrides"]) for row in ranked + others)
    lines = [f"{'rank':<6}{'arguments':<{width}}{key:>24}{'source':>10}{'target (oracle)':>18}"]
    lines += [
        f"{row['rank']:<6}{row['overrides']:<{width}}{row[key]:>24.4f}"
        f"{row['source/accuracy']:>10.1%}{row.get('target/accuracy', math.nan):>18.1%}"
        for row in ranked
    ]
    lines += [
        f"{'-':<6}{row['overrides']:<{width}}" + _why_not_ranked(row, key).rjust(24)
        for row in others
    ]
    accuracies = [row["target/accuracy"] for row in ranked if "target/accuracy" in row]
    if len(accuracies) == len(ranked):
        lines.append(f"regret of {key}: {100 * (max(accuracies) - accuracies[0]):.1f} points")
    return "\n".join(lines)


def _why_not_ranked(row, key):
    if "oracle" not in row:
        return "not finished"
    return "an oracle, not ranked" if row["oracle"] else f"no {key}"


def _save_figure(ranked, key, path):
    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.subplots()
    scores = [row[key] for row in ranked]
    accuracies = [row.get("target/accuracy", math.nan) for row in ranked]
    axes.scatter(scores, accuracies, marker="o", facecolors="none", edgecolors="#1b4f8f")
    axes.scatter(scores[:1], accuracies[:1], marker="x", color="#e0701b", label="chosen")
    axes.set_xlabel(key)
    axes.set_ylabel("target accuracy (oracle)")
    axes.legend(loc="best", fontsize=8)
    with atomic_write(path) as draft:
        figure.savefig(draft, dpi=120)
