"""Reports on a finished run: accuracies by class, the regret of each score, and labeled samples."""

import os
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas
from scipy.stats import binomtest
from sklearn.metrics import classification_report, confusion_matrix

from dann.checks import check_integer
from dann.training.evaluation import compute_accuracies
from dann.training.manifest import Manifest
from dann.training.run_directory import RunDirectory


def format_class_report(
    labels: np.ndarray, predicted: np.ndarray, class_names: Sequence[str]
) -> str:
    """Formats the accuracies, a table of the classes and the confusion matrix.

    The table contains precision, recall, F1 and the number of examples of each class. A row of the
    matrix counts the examples of one class by predicted class.

    Args:
        labels: Class numbers `(n,)`.
        predicted: Predicted class numbers `(n,)`.
        class_names: Names of all classes.
    """
    names: Any = list(class_names)
    classes = np.arange(len(names))
    zero: Any = 0.0  # precision of a class that is never predicted
    report = classification_report(
        labels, predicted, labels=classes, target_names=names, digits=3, zero_division=zero
    )
    matrix = confusion_matrix(labels, predicted, labels=classes)
    accuracies = compute_accuracies(labels, predicted)
    return (
        f"accuracy {accuracies['accuracy']:.1%} of {len(labels)} examples, "
        f"balanced {accuracies['balanced_accuracy']:.1%}\n\n{report}\n"
        f"Confusion matrix: one row per class, one column per predicted class\n"
        f"{pandas.DataFrame(matrix, names, names).to_string()}\n"
    )


def count_classes(table: pandas.DataFrame) -> str:
    """Returns the number of predictions and of the most frequent predicted classes in words.

    Args:
        table: Predictions, as `dann.training.evaluation.predict_target` returns them.
    """
    counts = table["class"].value_counts() if "class" in table else {}  # in regression, none
    listed = [f"{count} as {name}" for name, count in counts.items()]
    listed[10:] = ["..."] if len(listed) > 10 else []
    return f"{len(table)} examples" + (f": {', '.join(listed)}" if listed else "")


def tabulate_regret(directory: str | os.PathLike) -> pandas.DataFrame:
    """Returns the regret of choosing an epoch of a finished run by each score.

    Args:
        directory: A run directory with `selection/...` columns among its metrics and with an
            oracle curve, which `trainer.oracle_curve=true` writes.

    Returns:
        A frame with one row per score, the smallest regret first. Its columns are `step`, the last
        step of the epoch with the best score; `score`, the score of this epoch; `accuracy`, its
        target accuracy; and `regret`, the best accuracy of all epochs minus `accuracy`. The
        earliest of equal scores is the best, and NaN never. Scores without a finite value are
        omitted.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If the files contain different epochs.
    """
    run = RunDirectory(directory)
    metrics, curve = run.metrics(), run.oracle_curve()
    if len(metrics) != len(curve):
        raise ValueError(
            "Expected the same epochs in metrics.csv and oracle.csv. Received: "
            f"{len(metrics)} and {len(curve)} epochs in {run}"
        )
    steps, accuracies, rows = curve["step"], curve["target/accuracy"], []
    for name in metrics.columns[metrics.columns.str.startswith("selection/")]:
        scores = metrics[name].to_numpy("float64")
        if np.isfinite(scores).any():
            epoch = int(np.nanargmax(scores))  # the earliest of equal scores
            regret = accuracies.max() - accuracies[epoch]
            score = name.removeprefix("selection/")
            rows.append((score, steps[epoch], scores[epoch], accuracies[epoch], regret))
    columns = ["selection", "step", "score", "accuracy", "regret"]
    return pandas.DataFrame(rows, columns=columns).set_index("selection").sort_values("regret")


def find_data_run(run: RunDirectory) -> RunDirectory:
    """Returns the run whose config and summary describe the data of a directory.

    A run describes its own data. A baseline, `source_only` in a run, has the data of this run, and
    the folder `recommended` of a sweep has the data of the runs of the sweep.

    Args:
        run: A directory with a classifier.

    Raises:
        FileNotFoundError: If the directory is none of these.
        ValueError: If the runs of the sweep have different data.
    """
    if run.config_file.is_file():
        return run
    parent = RunDirectory(run.path.absolute().parent)
    if run.classifier_file.is_file() and parent.config_file.is_file():
        return parent
    name, runs = f"{run.path.absolute().name}/{run.classifier_file.name}", []
    if name in Manifest(parent.path, "sweep").files():  # other folders may be large
        runs = [RunDirectory(path.parent) for path in sorted(parent.path.rglob("summary.json"))]
        runs = [member for member in runs if member.is_finished() and member.config_file.is_file()]
    if not runs:
        raise FileNotFoundError(
            "Expected the directory of a run, or the folder `recommended` of a sweep. "
            f"Received: {run}"
        )
    data = [member.summary().get("training_data") for member in runs]
    if data.count(data[0]) < len(data):
        raise ValueError(
            f"Expected a sweep whose runs have the same data. Use one of its runs, such as "
            f"run={runs[0]}. Received: {run}, of runs with different data"
        )
    return runs[0]


class LabeledAccuracy(NamedTuple):
    """An accuracy that was estimated from a sample.

    Attributes:
        accuracy: Fraction of correct predictions, in [0, 1].
        low: Lower end of Wilson's 95% interval of the accuracy.
        high: Upper end of the interval.
        count: Number of labeled examples.
    """

    accuracy: float
    low: float
    high: float
    count: int

    def __str__(self) -> str:
        """Returns one line with the accuracy in percent and its interval."""
        interval = f"95% interval {self.low:.1%} to {self.high:.1%}"
        return (
            f"target accuracy (train and test): {self.accuracy:.1%} ({interval}) "
            f"of {self.count} labeled examples"
        )


def write_sample(run: RunDirectory, count: int, seed: int = 0) -> pathlib.Path:
    """Draws target examples to label by hand, and writes them to a CSV file.

    The sample has the same proportions of predicted classes as all predictions, up to one example
    per class. Every example is drawn with the same probability.

    Args:
        run: Directory of a finished run.
        count: Number of examples, from 1 to the number of predictions.
        seed: Seed of the draw. Defaults to `0`.

    Returns:
        The path of the file, `label_<count>.csv` in the run directory, with the columns `example`,
        the file or the row number of the example; `split`, `"train"` or `"test"`; `prediction`; and
        `label`, which is empty.

    Raises:
        FileExistsError: If the file exists, because it may contain labels.
        ValueError: If `count` is out of range, the run predicts numbers, or two examples of one
            split have the same name.
    """
    table = _read_predictions(run)
    check_integer("label", count, low=1, high=len(table))
    path = run.path / f"label_{count}.csv"
    if path.exists():
        raise FileExistsError(
            "Expected no file of this name, because it may contain labels. Move the file, or set "
            f"another number of examples. Received: {path}"
        )
    rng = np.random.default_rng(seed)
    # Systematic sampling of the sorted table preserves the class proportions.
    shuffled = table.iloc[rng.permutation(len(table))].sort_values("prediction", kind="stable")
    rows = ((np.arange(count) + rng.uniform()) * len(table) / count).astype(int)
    shuffled.iloc[rng.permutation(rows)].assign(label="").to_csv(path, index=False)
    return path


def measure_labeled_accuracy(
    run: RunDirectory, path: str | os.PathLike, class_names: Sequence[str]
) -> LabeledAccuracy:
    """Estimates the target accuracy of a run from a sample that was labeled by hand.

    Args:
        run: Directory of a finished run, whose predictions are compared with the labels.
        path: A file of `write_sample` with labels, of this run or of another run with the same
            target. Examples without a label do not count.
        class_names: Names of all classes, or their numbers as strings.

    Raises:
        ValueError: If the file is not a table of `write_sample`, there is no label, a label is not
            a class, an example has several labels, or the run has no prediction for an example.
    """
    expected = (
        f"Expected {path} to be a CSV file in UTF-8 with the columns example, split and label, and "
        "with commas between cells"
    )
    try:
        table: Any = pandas.read_csv(path, dtype=str, keep_default_na=False)
    except (ValueError, IsADirectoryError) as error:
        raise ValueError(f"{expected}. Received: {str(error).strip()}") from error
    predictions = _read_predictions(run)
    # Row numbers of two files, one for training and one for testing, may be equal.
    keys = ["example"] if predictions["example"].is_unique else ["example", "split"]
    if not {*keys, "label"} <= {*table}:
        raise ValueError(f"{expected}. Received: the header {','.join(table)}")
    labels = table["label"].str.strip()
    # A spreadsheet may write 1 as 1.0.
    table["label"] = labels.where(labels.isin(class_names), labels.str.removesuffix(".0"))
    # The file may have been drawn from another run, so its column `prediction` is ignored.
    table = table.loc[table["label"] != "", [*keys, "label"]]
    if table.duplicated(keys).any():
        example = table["example"][table.duplicated(keys)].iloc[0]
        raise ValueError(
            f"Expected one label per example. Received: several of {example} in {path}"
        )
    table = table.merge(predictions[[*keys, "prediction"]], how="left", on=keys)
    unknown = table["example"][table["prediction"].isna()]
    if len(unknown):
        raise ValueError(
            f"Expected examples of {run.predictions_file}. Received: {', '.join(unknown[:3])} in "
            f"{path}. Draw examples of this run with label="
        )
    if unknown := {*table["label"]} - {*class_names}:
        names, labels = ", ".join(class_names), ", ".join(sorted(unknown))
        raise ValueError(f"Expected labels among {names}. Received: {labels} in {path}")
    if table.empty:
        raise ValueError(f"Expected labels in the column label. Received: none in {path}")
    result = binomtest(int((table["prediction"] == table["label"]).sum()), len(table))
    low, high = result.proportion_ci(method="wilson")
    return LabeledAccuracy(float(result.statistic), float(low), float(high), len(table))


def _read_predictions(run):
    """Returns the columns `example`, `split` and `prediction` of a run with classes."""
    table = run.predictions()
    if "class" not in table:
        raise ValueError(
            "Expected classification for label=. Received: a regression run. Add the true values "
            f"to {run.predictions_file} and compare them with the column prediction"
        )
    is_repeated = table.duplicated(["example", "split"])
    if is_repeated.any():
        raise ValueError(
            f"Expected a different name of each example in {run.predictions_file}. Received: "
            f"{table['example'][is_repeated].iloc[0]} for several examples. Train with another id "
            "(data.id)"
        )
    return table[["example", "split", "class"]].rename(columns={"class": "prediction"})
