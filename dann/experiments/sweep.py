"""Reports on a sweep: a ranking and a recommendation, and accuracy against leakage."""

import filecmp
import pathlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas
from matplotlib.figure import Figure

from dann.data import DomainPair
from dann.data.probes import Separation
from dann.experiments.comparison import Comparison
from dann.experiments.rows import read_predictions, read_rows
from dann.layers.batch_normalization import with_keras_batch_normalization
from dann.selection.recommend import (
    DISTILLED_AVERAGE,
    Recommendation,
    recommend_distilled,
    recommend_run,
)
from dann.training.distillation import distill
from dann.training.evaluation import (
    accuracy_columns,
    order_target,
    predict_target,
    predict_test_sets,
)
from dann.training.manifest import Manifest
from dann.training.run_directory import RunDirectory

RECOMMENDED = "recommended"  # folder of the files of the recommended run


def rank_sweep(
    directory: str | pathlib.Path,
    score: str,
    overrides: Mapping[str, Sequence[str]],
    prepare: Callable[[pathlib.Path], tuple[DomainPair, Any, int]] | None = None,
) -> str | None:
    """Ranks the runs of a sweep by a label-free score, and recommends one network.

    The score `"agreement"` compares runs that differ only in the seed, by
    `dann.selection.agreement`. `Comparison` explains the ranking, and
    `dann.selection.recommend` the recommendation, which compares the predictions for the target's
    training examples, so all runs must have the same target. A predicted class has the probability
    that `predictions.csv` contains, and the other classes share the rest equally.

    With `prepare`, a new network is recommended instead of a run. `dann.training.distill` trains it
    to predict the average of the class probabilities of the runs.

    The function writes `sweep.csv`, the table `Comparison.runs` with one row per run, the best run
    first; `sweep.png`; and, in the folder `recommended`, the files `classifier.keras` and
    `predictions.csv` of the recommended network, with its `encoding.csv` and `standardizer.json`.

    Args:
        directory: Folder of the sweep.
        score: The score that ranks the runs, `"agreement"` or a score that every run has, such as
            `"info_max"`.
        overrides: Command-line arguments of each run that was started, by its folder in
            `directory`.
        prepare: Function from the path of a run to its data, a new classifier, and its number of
            training steps. Defaults to `None`: a run is recommended.

    Returns:
        Text to print: means over seeds, one row per setting and one for the baseline; the failed
        runs; and the recommendation. `None` if no run is finished.
    """
    directory = pathlib.Path(directory)
    paths = [directory / run for run in overrides]
    paths += [RunDirectory(path).baseline for path in paths]
    predictions = read_predictions(paths)
    runs: Any = read_rows(directory, overrides, predictions)
    if runs["oracle"].isna().all():
        return None
    names = {path.relative_to(directory).as_posix(): table for path, table in predictions.items()}
    recommendation, classes = _recommend(runs, names)
    closest = recommendation
    classifier = domains = None
    if prepare is not None and closest is not None and closest.average is not None:
        domains, classifier, steps = prepare(directory / closest.run)
        average = _arrange_average(closest.average, classes, domains)
        distill(classifier, domains.target_train, average, steps)
        recommendation = recommend_distilled(closest, RECOMMENDED, steps)
        row = runs[runs["run"].eq(closest.run)][["baseline", "seed", "oracle"]]
        row = row.assign(run=RECOMMENDED, setting=DISTILLED_AVERAGE)
        accuracies = accuracy_columns(domains, predict_test_sets(classifier, domains))
        runs = pandas.concat([runs, row.assign(**accuracies)], ignore_index=True)
    note = "no recommendation: the runs have no predictions for the same target examples"
    comparison = Comparison(runs, score, recommendation, notes=[] if recommendation else [note])
    manifest = Manifest(directory, "sweep")
    with manifest.write(directory / "sweep.csv") as draft:
        comparison.runs.drop(columns="leakage").to_csv(draft, index=False)
    with manifest.write(directory / "sweep.png") as draft:
        comparison.plot(draft)
    if closest is None or closest.run is None:
        return str(comparison)
    run, saved = RunDirectory(directory / closest.run), RunDirectory(directory / RECOMMENDED)
    # A baseline has the inputs of the run around it.
    data_run = run if run.is_finished() else RunDirectory(run.path.parent)
    files = [run.classifier_file, run.predictions_file, *data_run.input_files]
    files = list(filter(pathlib.Path.is_file, files))
    manifest.check(saved.model_files)
    # An earlier sweep may have had other inputs or another classifier.
    classifiers = run.classifier_file, saved.classifier_file
    is_same = classifier is None and all(map(pathlib.Path.is_file, classifiers))
    if not (is_same and filecmp.cmp(*classifiers, shallow=False)):
        saved.manifest.discard()  # predictions and exports of the earlier classifier
    replaced_names = {path.name for path in files}
    missing_files = [path for path in saved.model_files if path.name not in replaced_names]
    manifest.discard(f"{RECOMMENDED}/{path.name}" for path in missing_files)
    for path in files:
        with manifest.write(saved.path / path.name) as draft:
            shutil.copyfile(path, draft)
    if classifier is not None and domains is not None:
        with manifest.write(saved.classifier_file) as draft:
            with_keras_batch_normalization(classifier).save(draft)
        with manifest.write(saved.predictions_file) as draft:
            predict_target(classifier, domains).to_csv(draft, index=False)
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
        The numbers of the figure as a table to print. `None` if no run measured a leakage.
    """
    directory = pathlib.Path(directory)
    runs = read_rows(directory, overrides, {})
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


def _arrange_average(average, classes, domains):
    """Returns an average over `predictions.csv`, by row of `target_train` and number of the class.

    Args:
        average: Probabilities in the order of `predictions.csv`, `(n, len(classes))`.
        classes: Names of the classes that runs predict; other classes have the probability 0.
        domains: The data.
    """
    names = [str(name) for name in domains.class_names or range(domains.num_classes)]
    arranged = np.zeros((len(domains.target_train), len(names)))
    rows = order_target(domains)
    rows = rows[rows < len(arranged)]  # without the test set
    arranged[rows[:, None], [names.index(name) for name in classes]] = average
    return arranged


def _recommend(runs, predictions) -> tuple[Recommendation | None, Any]:
    """Returns the recommendation, if the runs predict the same examples, and the predicted classes.

    Args:
        runs: The result of `read_rows`.
        predictions: The result of `read_predictions`, by the name of the run.
    """
    settings = runs[runs["oracle"].eq(False)].set_index("run")["setting"].to_dict()
    predictions = {run: predictions[run] for run in settings if run in predictions}
    if len({tuple(table["example"]) for table in predictions.values()}) != 1:
        return None, None
    baselines = runs[runs["setting"].eq(runs["baseline"])]
    fields = [f"probe/{name}" for name in Separation._fields]
    measured = baselines[fields].dropna() if {*fields} <= {*runs} else baselines.head(0)
    probe = Separation(*measured.iloc[0]) if len(measured) else None
    source_only = runs["baseline"].unique().tolist()  # one per network, for example
    if all("prediction" in table for table in predictions.values()):  # regression
        numbers = {
            (settings[run], run): table["prediction"].to_numpy(float)[:, None]
            for run, table in predictions.items()
        }
        return recommend_run(probe, numbers, source_only), None
    classes = np.unique(np.concatenate([table["class"] for table in predictions.values()]))
    probabilities = {}
    for run, table in predictions.items():
        highest = table["probability"].to_numpy(float)
        remainder = (1 - highest) / max(1, len(classes) - 1)
        is_predicted = table["class"].to_numpy()[:, None] == classes  # (n, classes)
        probabilities[settings[run], run] = np.where(
            is_predicted, highest[:, None], remainder[:, None]
        )
    return recommend_run(probe, probabilities, source_only), classes
