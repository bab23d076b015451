"""The runs of a sweep: their ranking without target labels, and accuracy against leakage."""

import contextlib
import math
import pathlib
import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas
from matplotlib.figure import Figure

from dann.data.probes import Separation
from dann.experiments.comparison import ACCURACIES, AGREEMENT, Comparison
from dann.selection import agreement
from dann.selection.recommend import recommend_by_probe
from dann.training.checkpoints import atomic_write
from dann.training.run_directory import RunDirectory

_OF_METHODS = ("method", "schedule", "regularizer", "selection", "callbacks")


def rank_sweep(
    directory: str | pathlib.Path, score: str, overrides: Mapping[str, Sequence[str]]
) -> str | None:
    """Ranks the runs of a sweep by a label-free score and writes `sweep.csv` and `sweep.png`.

    The score `"agreement"` is `dann.selection.agreement` of the runs that differ in the seed alone.
    `dann.experiments.comparison.Comparison` tells how runs are ranked.

    The table has a row for each run and measure, the best run first, with the columns `rank`,
    `run`, `overrides`, `measure` and `value`. The measures of a run are the label-free scores of
    its summary, such as `selection/info_max`, its agreement if it has one, and the accuracies of
    it and of its baseline. A failed run has one row, without a measure.

    Args:
        directory: Folder of the sweep.
        score: The score to rank by, `"agreement"` or one of every run, such as `"info_max"`.
        overrides: Command-line arguments of each run that was begun, by its folder in `directory`.

    Returns:
        What to print: means over the seeds, a row for each setting and one for the baseline; the
        run that the score puts first; and those without a rank. `None` if no run is finished and
        has that score.
    """
    directory = pathlib.Path(directory)
    runs = runs_of_sweep(directory, overrides)
    found = Comparison(runs, _recommended(runs), score=score)
    if found.ranked.empty:
        return None
    with atomic_write(directory / "sweep.csv") as draft:
        _long(found.runs).to_csv(draft, index=False)
    with atomic_write(directory / "sweep.png") as draft:
        found.plot(draft)
    return str(found)


def save_tradeoff(
    directory: str | pathlib.Path, overrides: Mapping[str, Sequence[str]]
) -> str | None:
    """Writes `tradeoff.png`: a panel for each nuisance, a point for each run.

    Args:
        directory: Folder of the sweep.
        overrides: Command-line arguments of each run that was begun, by its folder in `directory`.

    Returns:
        The same as a table to print; `None` if no run has measured the leakage of a nuisance.
    """
    directory = pathlib.Path(directory)
    runs = runs_of_sweep(directory, overrides)
    runs = runs[runs["leakage"].astype(bool)]
    if runs.empty:
        return None
    names = list(dict.fromkeys(name for one in runs["leakage"] for name in one))
    settings = [setting.replace("method.strength=", "") for setting in runs["setting"]]
    accuracy = runs["source/accuracy"]
    shown = pandas.DataFrame({"strength": settings, "seed": runs["seed"], "accuracy": accuracy})
    figure = Figure(figsize=(5 * len(names), 4), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        found = pandas.DataFrame([one.get(name, {}) for one in runs["leakage"]], runs.index)
        shown[name] = found["score"]
        axes.hlines(accuracy, found["low"], found["high"], color="0.8", label="95% interval")
        axes.scatter(found["score"], accuracy, color="#1b4f8f", label="a run, by its strength")
        for text, *place in zip(settings, found["score"], accuracy, strict=True):
            axes.annotate(text, place, xytext=(4, 4), textcoords="offset points", size=9)
        axes.axvline(found["chance"].max(), color="0.4", linestyle=":", label="chance")
        axes.set(xlabel=f"leakage of {name}\n(lower is better)", ylabel="test accuracy")
        axes.margins(0.1)
        axes.grid(color="0.92")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    with atomic_write(directory / "tradeoff.png") as draft:
        figure.savefig(draft, dpi=120)
    shown = shown.dropna(axis="columns", how="all")  # seeds that no run was given
    return shown.to_string(index=False, float_format="{:.3f}".format)


def agreement_of_runs(
    runs: Mapping[pathlib.Path, tuple[Hashable, Hashable]],
) -> dict[pathlib.Path, float]:
    """Returns how far each run agrees on the target's classes with other seeds of its settings.

    A run that has no other to be compared with, that is, a finished one with the same settings,
    another seed and the same target examples, is left out, and so is one that learned from the
    target's labels or whose predictions cannot be read.

    Args:
        runs: The settings of each run, without the seed, and its seed, by its directory.
    """
    alike: dict[Hashable, dict[Hashable, tuple[pathlib.Path, Any]]] = {}
    for path, (settings, seed) in runs.items():
        run = RunDirectory(path)
        with contextlib.suppress(FileNotFoundError, ValueError):
            examples, classes = run.target_classes()
            if not run.summary()["oracle"]:
                alike.setdefault((settings, examples), {}).setdefault(seed, (path, classes))
    found = {}
    for group in alike.values():
        if len(group) > 1:
            paths, classes = zip(*group.values(), strict=True)
            rounded = np.round(agreement(classes), 9)  # so that equal ones are equal
            found.update(zip(paths, rounded, strict=True))
    return found


def runs_of_sweep(directory: pathlib.Path, overrides: Mapping[str, Sequence[str]]) -> Any:
    """Returns a frame with a row for each run and a column for each measure; see `rank_sweep`."""
    seeds = {directory / run: _settings_and_seed(one) for run, one in overrides.items()}
    agreements = agreement_of_runs(seeds)
    same = set.intersection(*(set(setting) for setting, _ in seeds.values()))
    rows = []
    for run, arguments in overrides.items():
        finished = RunDirectory(directory / run)
        summary = finished.summary() if finished.is_finished() else {}
        row = {name: summary[name] for name in summary if name.startswith("selection/")}
        row |= {name: summary.get(name, math.nan) for name in ("oracle", *ACCURACIES)}
        row |= {name: summary[name] for name in summary if name.endswith("accuracy")}
        row |= {name: summary[name] for name in summary if "probe/" in name}
        row["leakage"] = summary.get("leakage", {})
        if directory / run in agreements:
            row[AGREEMENT] = agreements[directory / run]
        setting, row["seed"] = seeds[directory / run]
        setting = [argument for argument in setting if argument not in same] or ["all seeds"]
        others = [one for one in setting if not one.startswith(("all seeds", *_OF_METHODS))]
        row |= {"setting": " ".join(setting), "baseline": " ".join(("source only", *others))}
        rows.append({"run": run, "overrides": " ".join(arguments), **row})
    return pandas.DataFrame(rows)


def _recommended(runs):
    """What to keep, if a probe tells how far the domains are apart for the source alone."""
    for of in ("source_only/", ""):
        names = [f"{of}probe/{name}" for name in Separation._fields]
        if {*names} <= {*runs}:
            return recommend_by_probe(Separation(*runs[names].dropna().iloc[0]), {})
    return None


def _settings_and_seed(arguments):
    """What a run's arguments say without the seed, and the seed."""
    seeds = [one for one in arguments if re.match(r"\+{0,2}seed=", one)]
    others = tuple(one for one in arguments if one not in seeds)
    return others, seeds[-1].partition("=")[2] if seeds else None


def _long(table):
    """A row for each run and measure."""
    rows = []
    for row in table.to_dict("records"):
        run = [row["rank"], row["run"], row["overrides"]]
        measures = [(name, row[name]) for name in row if "/" in name and pandas.notna(row[name])]
        rows += [[*run, *measure] for measure in measures or [("", "")]]
    return pandas.DataFrame(rows, columns=["rank", "run", "overrides", "measure", "value"])
