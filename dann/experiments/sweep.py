"""Reports on a sweep: a ranking without target labels, and accuracy against leakage."""

import pathlib
from collections.abc import Mapping, Sequence

import pandas
from matplotlib.figure import Figure

from dann.data.probes import Separation
from dann.experiments.comparison import Comparison
from dann.experiments.rows import read_rows
from dann.selection.recommend import recommend_by_probe
from dann.training.manifest import Manifest


def rank_sweep(
    directory: str | pathlib.Path, score: str, overrides: Mapping[str, Sequence[str]]
) -> str | None:
    """Ranks the runs of a sweep by a label-free score and writes `sweep.csv` and `sweep.png`.

    The score `"agreement"` compares runs that differ only in the seed, by
    `dann.selection.agreement`. `dann.experiments.Comparison` explains the ranking.

    `sweep.csv` has one row per run and measure, the best run first, with the columns `rank`,
    `run`, `overrides`, `measure` and `value`. The measures are the label-free scores in the summary
    of a run, such as `selection/info_max`, the agreement, and the accuracies of the run and of its
    baseline. A failed run has one row without a measure.

    Args:
        directory: Folder of the sweep.
        score: The score that ranks the runs, `"agreement"` or a score that every run has, such as
            `"info_max"`.
        overrides: Command-line arguments of each run that was started, by its folder in
            `directory`.

    Returns:
        Text to print: means over seeds, one row per setting and one for the baseline; the run with
        the best score; and the runs without a rank. `None` if no finished run has the score.
    """
    directory = pathlib.Path(directory)
    runs = read_rows(directory, overrides)
    comparison = Comparison(runs, _recommend(runs), score=score)
    if comparison.ranked.empty:
        return None
    manifest = Manifest(directory, "sweep")
    with manifest.write(directory / "sweep.csv") as draft:
        _to_long_table(comparison.runs).to_csv(draft, index=False)
    with manifest.write(directory / "sweep.png") as draft:
        comparison.plot(draft)
    return str(comparison)


def save_tradeoff(
    directory: str | pathlib.Path, overrides: Mapping[str, Sequence[str]]
) -> str | None:
    """Writes `tradeoff.png`: accuracy against leakage, one panel per nuisance, one point per run.

    Args:
        directory: Folder of the sweep.
        overrides: Command-line arguments of each run that was started, by its folder in
            `directory`.

    Returns:
        The same as a table to print. `None` if no run has measured the leakage of a nuisance.
    """
    directory = pathlib.Path(directory)
    runs = read_rows(directory, overrides)
    runs = runs[runs["leakage"].astype(bool)]
    if runs.empty:
        return None
    names = list(dict.fromkeys(name for leakage in runs["leakage"] for name in leakage))
    settings = [setting.replace("method.strength=", "") for setting in runs["setting"]]
    accuracy = runs["source/accuracy"]
    table = pandas.DataFrame({"strength": settings, "seed": runs["seed"], "accuracy": accuracy})
    figure = Figure(figsize=(5 * len(names), 4), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        measured = [leakage.get(name, {}) for leakage in runs["leakage"]]
        leakage = pandas.DataFrame(measured, runs.index)
        table[name] = leakage["score"]
        axes.hlines(accuracy, leakage["low"], leakage["high"], color="0.8", label="95% interval")
        label = "one run, labeled with its strength"
        axes.scatter(leakage["score"], accuracy, color="#1b4f8f", label=label)
        for text, *point in zip(settings, leakage["score"], accuracy, strict=True):
            axes.annotate(text, point, xytext=(4, 4), textcoords="offset points", size=9)
        axes.axvline(leakage["chance"].max(), color="0.4", linestyle=":", label="chance")
        axes.set(xlabel=f"leakage of {name}\n(lower is better)", ylabel="test accuracy")
        axes.margins(0.1)
        axes.grid(color="0.92")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    with Manifest(directory, "sweep").write(directory / "tradeoff.png") as draft:
        figure.savefig(draft, dpi=120)
    table = table.dropna(axis="columns", how="all")  # without the seed if no run sets it
    return table.to_string(index=False, float_format="{:.3f}".format)


def _recommend(runs):
    """Returns a recommendation if a run contains a domain probe of the source-only model."""
    for prefix in ("source_only/", ""):
        names = [f"{prefix}probe/{name}" for name in Separation._fields]
        if {*names} <= {*runs}:
            return recommend_by_probe(Separation(*runs[names].dropna().iloc[0]), {})
    return None


def _to_long_table(runs):
    """Returns one row per run and measure."""
    rows = []
    for row in runs.to_dict("records"):
        run = [row["rank"], row["run"], row["overrides"]]
        measures = [(name, row[name]) for name in row if "/" in name and pandas.notna(row[name])]
        rows += [[*run, *measure] for measure in measures or [("", "")]]
    return pandas.DataFrame(rows, columns=["rank", "run", "overrides", "measure", "value"])
