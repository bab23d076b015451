"""Evaluation of a trained model: accuracies, leakage, and predictions for the target."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas
from scipy.special import softmax
from sklearn.metrics import mean_absolute_error, r2_score, recall_score

from dann.adaptation.prediction import check_finite_outputs, predict
from dann.data import DomainPair
from dann.diagnostics import accuracy_by_nuisance, leakage

_MAX_LEAKAGE_EXAMPLES = 5000  # of a test set; forests and networks are fitted on them


def evaluate(
    model: Any, domains: DomainPair, seed: int
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Evaluates a model on the test sets that have labels.

    Args:
        model: Trained model of `dann.adaptation`.
        domains: The data.
        seed: Seed of the probes that measure the leakage of nuisances.

    Returns:
        The result of `accuracy_columns`, with `leakage` and `accuracy_by_nuisance` if there are
        nuisances; and the predicted classes or numbers `(n,)` by domain.

    Raises:
        FloatingPointError: If a logit is not finite.
    """
    predicted = predict_test_sets(model.classifier, domains)
    row: dict[str, Any] = accuracy_columns(domains, predicted)
    if domains.nuisances:
        row["leakage"] = _measure_leakage(model, domains, seed)
        row["accuracy_by_nuisance"] = _measure_accuracy(domains, predicted["source"])
    return row, predicted


def predict_test_sets(classifier: Any, domains: DomainPair) -> dict[str, np.ndarray]:
    """Returns the predicted classes or numbers `(n,)` by domain, on the test sets that have labels.

    Raises:
        FloatingPointError: If a logit is not finite.
    """
    predicted = {}
    for domain in ("source", "target"):
        inputs, labels = getattr(domains, f"{domain}_test")
        if labels is not None:
            logits = predict(classifier, inputs)
            check_finite_outputs(f"logits on the test set of the {domain}", logits)
            predicted[domain] = to_predictions(logits)
    return predicted


def to_predictions(logits: np.ndarray) -> np.ndarray:
    """Returns the classes of logits `(n, num_classes)`, or the numbers of one output `(n, 1)`."""
    return logits[:, 0] if logits.shape[-1] == 1 else logits.argmax(axis=-1)


def accuracy_columns(domains: DomainPair, predicted: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Returns the results of `compute_accuracies` on the test sets, as `<domain>/<name>`.

    Args:
        domains: The data. A test set without labels has no accuracies.
        predicted: Predictions `(n,)` for the test sets, by `"source"` and `"target"`.
    """
    row = {}
    for domain, classes in predicted.items():
        labels = getattr(domains, f"{domain}_test")[1]
        if labels is not None:
            for name, value in compute_accuracies(labels, classes).items():
                row[f"{domain}/{name}"] = value
    return row


def compute_accuracies(labels: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Returns `accuracy` and `balanced_accuracy` of class numbers `(n,)`, both in [0, 1].

    If the labels are floats, as in regression, returns the mean absolute error `mae` and the
    coefficient of determination `r2`, at most 1, instead.

    The balanced accuracy is the mean recall over the classes in `labels`, as in
    `sklearn.metrics.balanced_accuracy_score`. A model that always predicts one of `k` classes
    scores `1 / k`, however frequent that class is.
    """
    if labels.dtype.kind == "f":
        errors = mean_absolute_error(labels, predicted), r2_score(labels, predicted)
        return dict(zip(("mae", "r2"), map(float, errors), strict=True))
    # balanced_accuracy_score warns about predicted classes that `labels` do not contain.
    balanced = recall_score(labels, predicted, labels=np.unique(labels), average="macro")
    return {"accuracy": float(np.mean(predicted == labels)), "balanced_accuracy": float(balanced)}


def _measure_accuracy(domains, predicted):
    """Returns the accuracies by nuisance, value and class, all of them as strings for JSON."""
    names = np.array(domains.class_names or range(domains.num_classes)).astype(str)
    labels, results = names[domains.source_test[1]], {}
    for name, values in domains.nuisances.test.items():
        values = domains.nuisances.decode(name, values)
        table = accuracy_by_nuisance(labels, names[predicted], values)
        results[name] = {str(value): cells.dropna().to_dict() for value, cells in table.items()}
    return results


def _measure_leakage(model, domains, seed):
    """Measures the leakage of each nuisance on at most 5,000 test examples of the source.

    Returns the attributes of `Leakage` by nuisance and, if the model has
    `condition_on_label`, by `<name> given the label`. Splits do not divide groups, except for a
    nuisance whose values each occur in a single group, such as the name of a person. A nuisance
    that cannot be measured causes a warning.
    """
    inputs, labels = domains.source_test
    nuisances: Any = domains.nuisances
    rows = np.sort(np.random.default_rng(seed).permutation(len(labels))[:_MAX_LEAKAGE_EXAMPLES])
    features = predict(model.backbone, inputs[rows]).astype("float64")
    labels = labels[rows] if model.condition_on_label else None
    results = {}
    for name, values in nuisances.test.items():
        grouped = nuisances.groups is not None and not _has_own_groups(values, nuisances.groups)
        groups = nuisances.groups[rows] if grouped else None
        try:
            kinds = {name: nuisances.kinds[name]}
            results |= leakage(features, None, {name: values[rows]}, labels, groups, seed, kinds)
        except ValueError as error:  # training is complete without this measurement
            print(f"warning: leakage of {name} is not measured: {error}", file=sys.stderr)
    return {name: result._asdict() for name, result in results.items()}


def _has_own_groups(values, groups):
    """Returns whether each value of a class nuisance occurs in a single group."""
    if values.dtype.kind == "f":
        return False
    pairs = {*zip(values.tolist(), groups.tolist(), strict=True)}
    return len(pairs) == len(np.unique(values))


def predict_target(
    classifier: Any, domains: DomainPair, splits: Sequence[str] = ("train", "test")
) -> pandas.DataFrame:
    """Returns the predicted class of each target example. No labels are read.

    Args:
        classifier: Network from inputs to logits `(n, num_classes)`.
        domains: The data.
        splits: The parts of the target to predict, of `"train"` and `"test"`.

    Returns:
        A frame with one row per example and the columns `example`, the file, identifier or row
        number of the example; `class`, the name or number of the predicted class; `probability`,
        the softmax of the logits at this class; and `split`. In regression, `prediction` replaces
        `class` and `probability`. The rows are in the order of the input
        if both splits come from one file or folder; otherwise the training examples come first.
    """
    inputs = {"train": domains.target_train, "test": domains.target_test[0]}
    names = dict(zip(inputs, domains.target_names or (None, None), strict=True))
    classes = np.array(domains.class_names or range(domains.num_classes))
    tables = []
    for split in splits:
        logits = predict(classifier, inputs[split]).astype("float64")
        examples = names[split]
        columns = {"example": np.arange(len(logits)) if examples is None else examples}
        if domains.is_regression:
            columns["prediction"] = to_predictions(logits)
        else:
            columns["class"] = classes[logits.argmax(axis=1)]
            columns["probability"] = softmax(logits, axis=1).max(axis=1).round(4)
        tables.append(pandas.DataFrame(columns | {"split": split}))
    table = pandas.concat(tables, ignore_index=True)
    return table.iloc[order_target(domains, splits)].reset_index(drop=True)


def order_target(domains: DomainPair, splits: Sequence[str] = ("train", "test")) -> np.ndarray:
    """Returns the positions of target examples `(n,)` in the order of the input.

    Args:
        domains: The data. Positions count the training examples first if both splits are given.
        splits: `"train"`, `"test"` or both.
    """
    inputs = {"train": domains.target_train, "test": domains.target_test[0]}
    count = sum(len(inputs[split]) for split in splits)
    rows = dict(zip(inputs, domains.target_rows or ([0], [0]), strict=True))
    order = np.concatenate([rows[split] for split in splits])
    # Row numbers that repeat come from two files, each of which has its own order.
    is_one_file = len(np.unique(order)) == count
    return np.argsort(order) if is_one_file else np.arange(count)
