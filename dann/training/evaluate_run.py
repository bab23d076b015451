"""Reports on a finished run: accuracies by class, and the regret of each score."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas
from sklearn.metrics import classification_report, confusion_matrix

from dann.selection import regret
from dann.training.evaluation import compute_accuracies
from dann.training.run_directory import RunDirectory


def format_class_report(
    labels: np.ndarray, predicted: np.ndarray, class_names: Sequence[str]
) -> str:
    """Formats the accuracies, a table of the classes and the confusion matrix.

    The table has precision, recall, F1 and the number of examples of each class. A row of the
    matrix contains the examples of one class, by predicted class.

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


def tabulate_regret(directory: str | os.PathLike) -> pandas.DataFrame:
    """Returns the regret of choosing an epoch of a finished run by each score.

    Args:
        directory: A run directory with `selection/...` columns among its metrics and with an
            oracle curve, which `trainer.oracle_curve=true` writes.

    Returns:
        A frame with one row per score, the smallest regret first, and the columns `step`, the end
        of the epoch with the best score; `score`, the score of that epoch; `accuracy`, its target
        accuracy; and `regret`, the best accuracy of all epochs minus `accuracy`. A score without a
        finite value is left out.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If the files contain different epochs.
    """
    run = RunDirectory(directory)
    metrics, curve = run.metrics(), run.oracle_curve()
    scores = {
        name.removeprefix("selection/"): metrics[name].tolist()
        for name in metrics
        if name.startswith("selection/")
    }
    rows = []
    for name, choice in regret(scores, curve["target/accuracy"].tolist()).items():
        epoch = int(choice["choice"])
        step, score = curve["step"].tolist()[epoch], scores[name][epoch]
        rows.append((name, step, score, choice["accuracy"], choice["regret"]))
    columns = ["selection", "step", "score", "accuracy", "regret"]
    return pandas.DataFrame(rows, columns=columns).set_index("selection").sort_values("regret")
