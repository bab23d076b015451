"""The classes that a classifier predicts: a table with a row for each example, and accuracies."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.metrics import recall_score

from dann.data import DomainPair


def accuracies(labels: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Returns `accuracy` and `balanced_accuracy` of class numbers `(n,)`, both in [0, 1].

    The balanced accuracy is the mean over the classes of `labels` of the share of their examples
    that is right, `sklearn.metrics.balanced_accuracy_score`. Always predicting one of `k` classes
    gives `1 / k`, however frequent it is.
    """
    # That function warns of predicted classes that `labels` lack.
    balanced = recall_score(labels, predicted, labels=np.unique(labels), average="macro")
    return {"accuracy": float(np.mean(predicted == labels)), "balanced_accuracy": float(balanced)}


def target_predictions(
    domains: DomainPair,
    predict: Callable[[Any], np.ndarray],
    splits: Sequence[str] = ("train", "test"),
) -> Any:
    """Returns the classes predicted for the target as a pandas frame. It reads no labels.

    Args:
        domains: The data.
        predict: Function of inputs that returns logits `(n, classes)`.
        splits: Which of the target's examples, `"train"` and `"test"`.

    Returns:
        A frame with the columns `split`; `example`, the file or the row; `class`, its name or
        number; and `probability`, the softmax of the logits at that class.
    """
    import pandas

    inputs = {"train": domains.target_train, "test": domains.target_test[0]}
    names = dict(zip(inputs, domains.target_names or (None, None), strict=True))
    classes = np.array(domains.class_names or range(domains.num_classes))
    tables = []
    for split in splits:
        shares = softmax(predict(inputs[split]), axis=1)
        columns = {
            "split": split,
            "example": np.arange(len(shares)) if names[split] is None else names[split],
            "class": classes[shares.argmax(axis=1)],
            "probability": shares.max(axis=1).round(4),
        }
        tables.append(pandas.DataFrame(columns))
    return pandas.concat(tables, ignore_index=True)
