"""Checks of losses, metrics and labels for a network whose outputs are logits of classes."""

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from dann.adaptation.plain_network import pooling
from dann.checks import check_class_range
from dann.data.labels import NUMBER_THEM

FROM_LOGITS = {
    name.lower(): name
    for name in (
        "BinaryCrossentropy",
        "BinaryFocalCrossentropy",
        "CategoricalCrossentropy",
        "CategoricalFocalCrossentropy",
        "SparseCategoricalCrossentropy",
    )
}
# Metrics that take outputs for probabilities, and what makes them take logits.
_OF_PROBABILITIES = {
    "auc": ("AUC", {"from_logits": True}),
    "binaryaccuracy": ("BinaryAccuracy", {"threshold": 0.0}),
    "binaryiou": ("BinaryIoU", {"threshold": 0.0}),
    "precision": ("Precision", {"thresholds": 0.0}),
    "recall": ("Recall", {"thresholds": 0.0}),
}


def loss_of_logits(loss: Any) -> Any:
    """Returns the loss for `compile`; a name stands for the loss from logits.

    Raises:
        ValueError: If it is a loss of probabilities.
    """
    if not isinstance(loss, keras.losses.Loss):
        found = keras.losses.get(loss) if isinstance(loss, str) else loss
        name = FROM_LOGITS.get(_plain_name(found))
        if name is not None:
            return getattr(keras.losses, name)(from_logits=True)
        loss = found if _plain_name(found) == "kldivergence" else loss
    _refuse_probabilities("loss", loss, "losses")
    return loss


def is_of_logits(loss: Any) -> bool:
    """Returns whether it is one of Keras's cross-entropies, which `compile` makes take logits."""
    return type(loss).__name__ in FROM_LOGITS.values()


def metrics_of_logits(metrics: Any, loss: Any) -> Any:
    """Returns the metrics for `compile`; a name stands for the metric of logits.

    With a binary cross-entropy `"accuracy"` and `"binary_accuracy"` take outputs above 0 for the
    class 1.

    Raises:
        ValueError: If one is a metric of probabilities.
    """
    if not isinstance(metrics, list | tuple):
        return metrics
    return [_metric_of_logits(metric, loss) for metric in metrics]


def _metric_of_logits(metric, loss):
    of_logits = is_of_logits(loss)
    if not isinstance(metric, str):
        _refuse_probabilities("metrics", metric, "metrics")
        _refuse_numbers_of_classes(metric)
        if of_logits:
            _refuse_half(metric)
            _refuse_f_score(metric, loss)
        return metric
    if type(loss).__name__.startswith("Binary") and metric in ("accuracy", "acc"):
        return keras.metrics.BinaryAccuracy(name=metric, threshold=0.0)
    known = _OF_PROBABILITIES.get(_plain_name(metric)) if of_logits else None
    if known is not None:
        name = metric if metric.islower() else None  # of a class, Keras takes its own
        return getattr(keras.metrics, known[0])(name=name, **known[1])
    same = type(loss).__name__ if metric in ("crossentropy", "ce") else ""
    name = FROM_LOGITS.get(_plain_name(metric), same)
    kind = getattr(keras.metrics, name, None) if name in FROM_LOGITS.values() else None
    return metric if kind is None else kind(from_logits=True, name=metric)


def _refuse_probabilities(argument, given, module):
    told = getattr(given, "from_logits", getattr(given, "_from_logits", True))
    name = type(given).__name__
    if told is False:
        write = f"`keras.{module}.{name}(from_logits=True)`"
    elif _plain_name(given) == "kldivergence":
        write = f"`keras.{module}.CategoricalCrossentropy(from_logits=True)`"
    else:
        return
    raise ValueError(
        f"Argument `{argument}` must take logits, because that is what the label head gives: use "
        f"{write}. Received: {name if name != 'function' else given.__name__} of probabilities"
    )


def _refuse_numbers_of_classes(metric):
    """Refuses an intersection over union that takes predictions for numbers of classes."""
    of_numbers = getattr(metric, "sparse_y_pred", False)
    if of_numbers and not isinstance(metric, keras.metrics.BinaryIoU):
        name = type(metric).__name__
        raise ValueError(
            "Argument `metrics` must take logits, because that is what the label head gives: use "
            f"`keras.metrics.{name}(..., sparse_y_pred=False)`. Received: {name} of numbers of "
            "classes"
        )


def _refuse_half(metric):
    """Refuses a metric that takes outputs above .5 for the class, as it does unless told."""
    name, arguments = _OF_PROBABILITIES.get(_plain_name(metric), ("", {}))
    argument = next((each for each in arguments if each.startswith("threshold")), None)
    if argument is None or getattr(metric, "top_k", None) is not None:
        return
    half = getattr(metric, argument, 0.5)  # a function's default
    if half not in (0.5, [0.5]):
        return
    raise ValueError(
        "Argument `metrics` must take logits, because that is what the label head gives: use "
        f"`keras.metrics.{name}({argument}=0.0)`. Received: {name} that takes outputs above 0.5 "
        "for the class"
    )


def _refuse_f_score(metric, loss):
    """Refuses an F score that compares outputs with a threshold, which Keras wants in (0, 1]."""
    if not isinstance(metric, keras.metrics.FBetaScore):
        return
    binary = type(loss).__name__.startswith("Binary")
    if metric.threshold is None and not binary:
        return  # the class of the largest output
    name = type(metric).__name__
    use = f"`keras.metrics.{name}()`, which takes the class of the largest output"
    if binary:
        use = "`keras.metrics.Precision(thresholds=0.0)` and `keras.metrics.Recall(thresholds=0.0)`"
    raise ValueError(
        "Argument `metrics` must take logits, because that is what the label head gives: use "
        f"{use}. Received: {name} that takes outputs for probabilities"
    )


def _plain_name(thing):
    """Returns a loss's name in one spelling: `sparse_cross` and `SparseCross` become equal."""
    name = thing if isinstance(thing, str) else getattr(thing, "__name__", type(thing).__name__)
    return name.replace("_", "").lower()


def check_form(labels: Any, logits: Any, loss: Any) -> None:
    """Raises `ValueError` unless a batch of labels has the form that the loss takes."""
    if isinstance(labels, dict | list | tuple):
        raise ValueError(
            "The labels of a pair are the source's alone, `({'source': xs, 'target': xt}, ys)`. "
            "Labels of the target belong to `validation_data=(xt, yt)`, where no training sees "
            f"them. Received: labels in a {type(labels).__name__} of {len(labels)}"
        )
    if labels is None:
        raise ValueError(
            "The loss needs labels: `fit(pairs, validation_data=(inputs, labels))`, "
            "`evaluate(inputs, labels)`; `predict(inputs)` needs none. Received: inputs without "
            "labels"
        )
    if keras.backend.standardize_dtype(labels.dtype) == "string":
        raise ValueError(f"Labels must be numbers; {NUMBER_THEM}. Received: strings")
    _check_positions(labels, logits, loss)
    shape, classes = tuple(labels.shape), logits.shape[-1]
    one_hot = len(shape) == len(logits.shape) and shape[-1] == classes and classes != 1
    sparse = isinstance(loss, keras.losses.SparseCategoricalCrossentropy)
    dense = isinstance(loss, keras.losses.CategoricalCrossentropy)
    if (sparse and one_hot) or (dense and not one_hot and len(shape) < len(logits.shape)):
        fitting = "CategoricalCrossentropy" if sparse else "SparseCategoricalCrossentropy"
        kind = "one-hot or soft" if sparse else "numbers of classes"
        raise ValueError(
            f"Labels that are {kind} need another loss: "
            f"`compile(loss=keras.losses.{fitting}(from_logits=True))`. Received: labels of shape "
            f"{shape} with {type(loss).__name__}"
        )


def _check_positions(labels, logits, loss):
    """Raises `ValueError` if labels and logits are not both of examples or both of positions."""
    shape, positions = tuple(labels.shape), tuple(logits.shape[1:-1])
    found = f"Received: labels of shape {shape}, logits of shape {tuple(logits.shape)}"
    axes = len(shape) - 1 - len(positions)  # 1 if labels have one for classes
    if axes < 0:
        pool = pooling(logits.shape)
        raise ValueError(
            "The label head gives logits for each position, so labels must be maps too; for one "
            f"label an example, `keras.Sequential([backbone, keras.layers.{pool}])` as the "
            f"backbone, or a label head that pools. {found}"
        )
    sparse = isinstance(loss, keras.losses.SparseCategoricalCrossentropy)
    if axes > 1 or axes and sparse and shape[-1] not in (1, None, logits.shape[-1]):
        raise ValueError(
            "Labels are maps, so the label head must give logits for each position: end the "
            f"backbone before it pools or flattens. {found}"
        )
    sizes = zip(shape[1 : len(positions) + 1], positions, strict=True)
    if any(a != b for a, b in sizes if None not in (a, b)):
        raise ValueError(
            "Labels and logits must have one size: give a `label_head` that ends in it, such as "
            f"one with `keras.layers.UpSampling2D`. {found}"
        )


def check_range(labels: Any, num_classes: int, loss: Any) -> None:
    """Raises `ValueError` unless all labels are numbers of the model's classes.

    It looks at arrays in memory alone, and where the loss takes numbers of classes.
    """
    array = isinstance(labels, np.ndarray) or keras.ops.is_tensor(labels)
    if not (array and isinstance(loss, keras.losses.SparseCategoricalCrossentropy)):
        return
    values = np.asarray(keras.ops.convert_to_numpy(labels))
    if values.dtype.kind in "USO":
        raise ValueError(
            f"Labels must be numbers; {NUMBER_THEM}. Received: labels such as {values.flat[0]!r}"
        )
    if values.ndim > 1 and values.shape[-1] == num_classes != 1:
        return  # `check_form` says what to do
    values = values[values != loss.ignore_class] if loss.ignore_class is not None else values
    if values.dtype.kind == "f" and (values != np.round(values)).any():
        raise ValueError(
            "Labels must be numbers of classes; for numbers to predict, a label head of one output "
            "and a loss such as 'mse'. Received: labels that are not whole numbers"
        )
    low, high = (values.min(), values.max()) if values.size else (0, 0)
    why = f"as `labels - {low:g}` are" if low > 0 and high - low < num_classes else ""
    check_class_range("Labels", values, num_classes, why=why)


@contextlib.contextmanager
def wrong_labels_told(num_classes: int) -> Iterator[None]:
    """Turns TensorFlow's error about a label that is no class into a `ValueError` of one line.

    It is for the labels of a data set, which nothing checks before the training.
    """
    try:
        yield
    except Exception as error:
        found = re.search(r"label value of (-?\d+) which is outside the valid range", str(error))
        if found is None:
            raise
        try:
            check_class_range("Labels", np.array([int(found[1])]), num_classes)
        except ValueError as told:
            raise told from None
