"""The runs of a sweep over strengths: accuracy against what is left of nuisances."""

import pathlib
from collections.abc import Mapping, Sequence

import pandas
from matplotlib.figure import Figure

from dann.experiments.sweep import runs_of_sweep
from dann.training.checkpoints import atomic_write


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
