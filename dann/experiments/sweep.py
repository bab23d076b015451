"""The runs of a sweep, ranked without target labels."""

import contextlib
import csv
import math
import pathlib
import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from dann.standard_error import held_back, is_no_information
from dann.training import RunDirectory
from dann.training.files_on_disk import atomic_write

AGREEMENT = "selection/agreement"
_OF_EQUALS = "selection/info_max"
_RUN = ("rank", "run", "overrides")


def rank_sweep(
    directory: str | pathlib.Path,
    score: str,
    overrides: Mapping[str, Sequence[str]],
    name: str = "sweep",
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

    Target accuracies are an oracle's, so nothing is ranked by them. They are shown, and give the
    regret: the best of the column minus that of the run that the score puts first. A run that
    learned from the target's labels has no rank and is left out of the regret.

    Args:
        directory: Folder of the sweep.
        score: The score to rank by, `"agreement"` or one of every run, such as `"info_max"`.
        overrides: Command-line arguments of each run that was begun, by its folder in `directory`.
        name: Name of the two files, without the ending.

    Returns:
        The table as text, or `None` if no run is finished and has that score.
    """
    directory = pathlib.Path(directory)
    rows = [_row(directory, run, arguments) for run, arguments in overrides.items()]
    found = agreement_of_runs(
        {directory / run: _settings_and_seed(arguments) for run, arguments in overrides.items()}
    )
    for row in rows:
        if directory / row["run"] in found:
            row[AGREEMENT] = found[directory / row["run"]]
    key = f"selection/{score}"
    candidates = [row for row in rows if not row.get("oracle", True)]
    alone = [row["run"] for row in candidates if AGREEMENT not in row]
    if key == AGREEMENT and alone and any(_OF_EQUALS in row for row in candidates):
        those = "" if len(alone) == len(candidates) else f"; one seed: {', '.join(alone)}"
        print(f"Ranked by {_OF_EQUALS}: agreement needs several seeds of each setting{those}")
        key = _OF_EQUALS
    ranked = [row for row in candidates if key in row]
    keys = (key, _OF_EQUALS) if key == AGREEMENT else (key,)
    ranked.sort(key=lambda row: [_last_if_nan(row.get(one, 0.0)) for one in keys])
    if not ranked:
        return None
    for rank, row in enumerate(ranked, start=1):
        row["rank"] = rank
    others = [row for row in rows if "rank" not in row]
    best = max(row["target/accuracy"] for row in ranked)
    regret = best - ranked[0]["target/accuracy"]
    _write(ranked + others, directory / f"{name}.csv")
    _save_figure(ranked, key, directory / f"{name}.png")
    return _as_text(ranked, others, key, regret)


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
    groups = [zip(*found.values(), strict=True) for found in alike.values() if len(found) > 1]
    if not groups:
        return {}
    with held_back(is_no_information):
        from dann.selection import agreement  # loads Keras, which a launcher has not done
    return {
        path: value
        for paths, classes in groups
        for path, value in zip(paths, agreement(classes), strict=True)
    }


def _last_if_nan(score):
    """The place of a score in an order from the best down."""
    return math.inf if math.isnan(score) else -score


def _settings_and_seed(arguments):
    """What a run's arguments say without the seed, and the seed."""
    seeds = [one for one in arguments if re.match(r"\+{0,2}seed=", one)]
    others = tuple(one for one in arguments if one not in seeds)
    return others, seeds[-1].partition("=")[2] if seeds else None


def _row(directory, run, arguments) -> dict[str, Any]:
    row: dict[str, Any] = {"run": run, "overrides": " ".join(arguments)}
    finished = RunDirectory(directory / run)
    if finished.is_finished():
        summary = finished.summary()
        scores = {k: v for k, v in summary.items() if k.startswith("selection/")}
        row.update(scores)
        row.update({k: summary[k] for k in ("oracle", "source/accuracy", "target/accuracy")})
    return row


def _write(rows, path):
    with atomic_write(path) as draft, draft.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*_RUN, "measure", "value"])
        for row in rows:
            run = [row.get(column, "") for column in _RUN]
            measures = [(name, row[name]) for name in row if "/" in name]
            writer.writerows([*run, *measure] for measure in measures or [("", "")])


def _as_text(ranked, others, key, regret):
    width = max(len(row["overrides"]) for row in ranked + others)
    lines = [f"{'rank':<6}{'arguments':<{width}}{key:>24}{'source':>10}{'target (oracle)':>18}"]
    lines += [
        f"{row['rank']:<6}{row['overrides']:<{width}}{row[key]:>24.4f}"
        f"{row['source/accuracy']:>10.1%}{row['target/accuracy']:>18.1%}"
        for row in ranked
    ]
    lines += [
        f"{'-':<6}{row['overrides']:<{width}}" + _why_not_ranked(row, key).rjust(24)
        for row in others
    ]
    lines.append(f"regret of {key}: {100 * regret:.1f} points")
    return "\n".join(lines)


def _why_not_ranked(row, key):
    """Why a row has no rank."""
    if "oracle" not in row:
        return "not finished"
    return "an oracle, not ranked" if row["oracle"] else f"no {key}"


def _save_figure(ranked, key, path):
    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.subplots()
    scores, accuracies = ([row[name] for row in ranked] for name in (key, "target/accuracy"))
    axes.scatter(scores, accuracies, marker="o", facecolors="none", edgecolors="#1b4f8f")
    axes.scatter(scores[:1], accuracies[:1], marker="x", color="#e0701b", label="chosen")
    axes.set_xlabel(key)
    axes.set_ylabel("target accuracy (oracle)")
    axes.legend(loc="best", fontsize=8)
    with atomic_write(path) as draft:
        figure.savefig(draft, dpi=120)
