"""The runs of a sweep, ranked without target labels."""

import contextlib
import math
import pathlib
import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas
from matplotlib.figure import Figure

from dann.selection import agreement
from dann.training.checkpoints import atomic_write
from dann.training.run_directory import RunDirectory

AGREEMENT = "selection/agreement"
_OF_EQUALS = "selection/info_max"
_ACCURACIES = ["source/accuracy", "target/accuracy"]
_OF_BASELINE = [f"source_only/{name}" for name in _ACCURACIES]
_OF_METHODS = ("method", "schedule", "regularizer", "selection", "callbacks")


def rank_sweep(
    directory: str | pathlib.Path, score: str, overrides: Mapping[str, Sequence[str]]
) -> str | None:
    """Ranks the runs of a sweep by a label-free score and writes `sweep.csv` and `sweep.png`.

    The score `"agreement"` is `dann.selection.agreement` of the runs that differ in the seed alone.
    Runs that agree equally, as two do, are ranked by InfoMax. If a run has no other to agree with,
    the whole sweep is ranked by InfoMax, and a line says so.

    The table has a row for each run and measure, the best run first, with the columns `rank`,
    `run`, `overrides`, `measure` and `value`. The measures of a run are the label-free scores of
    its summary, such as `selection/info_max`, its agreement if it has one, `source/accuracy` and
    `target/accuracy`. Of runs with the same score the earlier comes first. A failed run has one
    row, without a measure.

    Target accuracies need target labels, so nothing is ranked by them. They are shown: that of the
    run that the score puts first beside the best. A run that learned from the target's labels has
    no rank.

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
    runs = _runs(directory, overrides)
    candidates = runs.query("oracle == False")
    key = _usable_score(f"selection/{score}", candidates)
    ranked = _having(candidates, key)
    if ranked.empty:
        return None
    keys = [key, _OF_EQUALS] if key == AGREEMENT and _OF_EQUALS in runs else [key]
    ranked = ranked.sort_values(keys, ascending=False, kind="stable")
    others = runs.drop(ranked.index)
    ranks = [*range(1, len(ranked) + 1), *[""] * len(others)]
    table = pandas.concat([ranked, others]).assign(rank=ranks)
    with atomic_write(directory / "sweep.csv") as draft:
        _long(table).to_csv(draft, index=False)
    _save_figure(ranked, key, directory / "sweep.png")
    return _as_text(table, key)


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


def _runs(directory, overrides):
    """A row for each run, with a column for each measure."""
    seeds = {directory / run: _settings_and_seed(one) for run, one in overrides.items()}
    agreements = agreement_of_runs(seeds)
    same = set.intersection(*(set(setting) for setting, _ in seeds.values()))
    rows = []
    for run, arguments in overrides.items():
        finished = RunDirectory(directory / run)
        summary = finished.summary() if finished.is_finished() else {}
        row = {name: summary[name] for name in summary if name.startswith("selection/")}
        row |= {name: summary.get(name, math.nan) for name in ("oracle", *_ACCURACIES)}
        row |= {name: summary[name] for name in _OF_BASELINE if name in summary}
        if directory / run in agreements:
            row[AGREEMENT] = agreements[directory / run]
        setting, row["seed"] = seeds[directory / run]
        setting = [argument for argument in setting if argument not in same] or ["all seeds"]
        others = [one for one in setting if not one.startswith(("all seeds", *_OF_METHODS))]
        row |= {"setting": " ".join(setting), "baseline": " ".join(("source only", *others))}
        rows.append({"run": run, "overrides": " ".join(arguments), **row})
    return pandas.DataFrame(rows)


def _settings_and_seed(arguments):
    """What a run's arguments say without the seed, and the seed."""
    seeds = [one for one in arguments if re.match(r"\+{0,2}seed=", one)]
    others = tuple(one for one in arguments if one not in seeds)
    return others, seeds[-1].partition("=")[2] if seeds else None


def _having(runs: pandas.DataFrame, measure: str) -> pandas.DataFrame:
    """The rows of the runs that have a measure."""
    return runs.dropna(subset=[measure]) if measure in runs else runs.head(0)


def _usable_score(key, candidates):
    """The score to rank by: InfoMax if runs without a second seed have no agreement."""
    alone = set(candidates["run"]) - set(_having(candidates, AGREEMENT)["run"])
    if key != AGREEMENT or not alone or _having(candidates, _OF_EQUALS).empty:
        return key
    those = "" if len(alone) == len(candidates) else f"; one seed: {', '.join(sorted(alone))}"
    print(f"Ranked by {_OF_EQUALS}: agreement needs several seeds of each setting{those}")
    return _OF_EQUALS


def _long(table):
    """A row for each run and measure."""
    rows = []
    for row in table.to_dict("records"):
        run = [row["rank"], row["run"], row["overrides"]]
        measures = [(name, row[name]) for name in row if "/" in name and pandas.notna(row[name])]
        rows += [[*run, *measure] for measure in measures or [("", "")]]
    return pandas.DataFrame(rows, columns=["rank", "run", "overrides", "measure", "value"])


def _as_text(table, key):
    shown = table[["setting", "seed", key, *_ACCURACIES]]
    if {*_OF_BASELINE} <= {*table}:
        baseline = table[["baseline", "seed", *_OF_BASELINE]].dropna().drop_duplicates()
        baseline.columns = ["setting", "seed", *_ACCURACIES]
        shown = pandas.concat([shown, baseline])
    groups = shown.groupby("setting", sort=False)
    columns = {
        "seeds": groups["source/accuracy"].count(),
        key.removeprefix("selection/"): groups[key].agg(_spread, form=".4f"),
        "source": groups["source/accuracy"].agg(_spread, form=".1%"),
        "target (oracle)": groups["target/accuracy"].agg(_spread, form=".1%"),
    }
    lines = ["mean ± standard deviation over seeds"]
    lines.append(pandas.DataFrame(columns).rename_axis(None).to_string())
    first, best = table.iloc[0], table["target/accuracy"][table["rank"].ne("")].max(skipna=False)
    lines.append(f"chosen by {key}, without target labels: {first['setting']}, in {first['run']}/")
    if not math.isnan(best):
        accuracy = first["target/accuracy"]
        lines.append(f"its target accuracy is {accuracy:.1%}, that of the best run {best:.1%}")
    for run in table[table["rank"].eq("")].to_dict("records"):
        reason = {True: "an oracle", False: f"no {key}"}.get(run["oracle"], "not finished")
        lines.append(f"not ranked: {run['setting']}, in {run['run']}/ ({reason})")
    return "\n".join(lines)


def _spread(values, form):
    """The mean and, of several values, their standard deviation."""
    known = values.dropna()
    spread = f" ± {known.std():{form}}" if len(known) > 1 else ""
    return f"{known.mean():{form}}{spread}" if len(known) else "-"


def _save_figure(ranked, key, path):
    """A row for each setting: the score of its runs, and beside it their target accuracies."""
    settings = np.array(ranked["setting"])
    names = list(dict.fromkeys(settings))
    places = [names.index(name) for name in settings]
    size = 7 + 0.08 * max(map(len, names)), 2 + 0.35 * len(names)
    figure = Figure(figsize=size, layout="constrained")
    score, accuracy = figure.subplots(1, 2, sharey=True)
    for axes, values, color in ((score, key, "#1b4f8f"), (accuracy, "target/accuracy", "#e0701b")):
        found = ranked[values].astype(float)
        axes.scatter(found, places, facecolors="none", edgecolors=color, label="a run")
        means = found.groupby(settings).mean().reindex(names)
        axes.scatter(means, range(len(names)), marker="|", s=200, color=color, label="mean")
        axes.scatter(found.iloc[:1], places[:1], marker="x", color="black", label="ranked first")
        axes.grid(axis="y", color="0.9")
        axes.margins(x=0.1, y=0.6 / len(names))
    if _OF_BASELINE[1] in ranked:
        found = ranked[_OF_BASELINE[1]].astype(float)
        accuracy.scatter(found, places, marker=".", color="0.6", label="its source only")
    score.set(xlabel=f"{key}\n(higher is better)", yticks=range(len(names)), yticklabels=names)
    score.invert_yaxis()
    accuracy.set(xlabel="target accuracy\n(needs labels)")
    figure.legend(*accuracy.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    with atomic_write(path) as draft:
        figure.savefig(draft, dpi=120)
