"""What a finished run gives on test sets, and what each score would have chosen."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas
from sklearn.metrics import classification_report, confusion_matrix

from dann.selection import regret
from dann.training.predictions import accuracies
from dann.training.run_directory import RunDirectory


def accuracy_report(labels: np.ndarray, predicted: np.ndarray, class_names: Sequence[str]) -> str:
    """Formats the accuracies of class numbers, a table of the classes and the confusion matrix.

    The table has precision, recall, F1 and the number of examples of each class; a row of the
    matrix holds the examples of one class, by the class that was predicted.
    """
    names: Any = list(class_names)
    classes = np.arange(len(names))
    never: Any = 0.0  # precision of a class that is never predicted
    report = classification_report(
        labels, predicted, labels=classes, target_names=names, digits=3, zero_division=never
    )
    matrix = confusion_matrix(labels, predicted, labels=classes)
    shown = pandas.DataFrame(matrix, names, names).to_string()
    found = accuracies(labels, predicted)
    return (
        f"accuracy {found['accuracy']:.1%} of {len(labels)} examples, "
        f"balanced {found['balanced_accuracy']:.1%}\n\n{report}\n"
        f"Confusion: a row a class, a column a predicted class\n{shown}\n"
    )


def tabulate_regret(directory: str | os.PathLike) -> pandas.DataFrame:
    """Returns what choosing an epoch of a finished run by each score would have cost.

    Args:
        directory: A run directory with `selection/...` columns among its metrics and with an
            oracle curve, which `trainer.oracle_curve=true` writes.

    Returns:
        A row a score, the least regret first: `step`, the end of the epoch that it rates highest;
        its `score` and the target's `accuracy` there; and `regret`, the best accuracy of all epochs
        minus that one. A score without a finite number is left out.

    Raises:
        FileNotFoundError: If a file is not there.
        ValueError: If the files are not of the same epochs.
    """
    run = RunDirectory(directory)
    metrics, curve = run.metrics(), run.oracle_curve()
    steps, oracle = curve["step"].tolist(), curve["target/accuracy"].tolist()
    scores = {
        name.removeprefix("selection/"): metrics[name].tolist()
        for name in metrics
        if name.startswith("selection/")
    }
    rows = [
        (name, steps[at := int(of["choice"])], scores[name][at], of["accuracy"], of["regret"])
        for name, of in regret(scores, oracle).items()
    ]
    columns = ["selection", "step", "score", "accuracy", "regret"]
    return pandas.DataFrame(rows, columns=columns).set_index("selection").sort_values("regret")
