"""The losses, metrics and labels of a network whose outputs are logits."""

import warnings
from typing import Any

import keras
import numpy as np

from dann.checks import check_class_range
from dann.data.conversion import reject_text_labels
from dann.data.pairs import Pairs

# Of several labels an example: a sigmoid of each output.
SIGMOIDS = keras.losses.BinaryCrossentropy, keras.losses.BinaryFocalCrossentropy
SHARES = keras.losses.CategoricalCrossentropy, keras.losses.CategoricalFocalCrossentropy


def loss_of_logits(loss: Any, model: Any, shape: Any) -> Any:
    """Returns the loss for `compile`; none means the cross-entropy of classes.

    Of logits by name, so is their `shape`, and so are the losses.

    Raises:
        ValueError: If it takes probabilities, if there are several, if none is given for a single
            output, or if it is for several labels an example and the model compares classes; of
            logits by name, unless the losses have the same names.
    """
    if isinstance(shape, dict):
        if not isinstance(loss, dict) or set(loss) != set(shape):
            raise ValueError(f"Give losses by name, of {sorted(shape)}. Received: loss={loss!r}")
        return {name: loss_of_logits(loss[name], model, one) for name, one in shape.items()}
    if loss is None:
        if shape[-1] == 1:
            raise ValueError(
                "A label head with one output predicts a number; give `loss`, such as 'mse'. "
                "Received: no loss, which means the cross-entropy of classes"
            )
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    parts = keras.tree.flatten(loss)
    if len(parts) != 1:
        raise ValueError(f"Give one loss, that of the labels. Received: loss={loss!r}")
    loss = parts[0]
    found = keras.losses.get(loss) if isinstance(loss, str) else loss
    name = getattr(found, "__name__", "")
    of_probabilities = name == "kl_divergence" or name.endswith("crossentropy")
    is_keras = getattr(keras.losses, name, None) is found
    if (is_keras and of_probabilities) or not getattr(found, "from_logits", True):
        raise ValueError(
            "Argument `loss` must take logits, because that is what the label head gives, such as "
            "`keras.losses.CategoricalCrossentropy(from_logits=True)`, or "
            "`BinaryCrossentropy(from_logits=True)` for several labels an example. Received: "
            f"loss={loss!r} of probabilities"
        )
    if isinstance(loss, SIGMOIDS):
        refuse_classes(model, f"{type(loss).__name__}, which is for several labels an example")
    return loss


def metrics_of_logits(metrics: Any, loss: Any) -> Any:
    """Returns the metrics for `compile`: with a sigmoid, outputs above 0 mean the class.

    Keras tells the other accuracies by the shapes of labels and outputs.
    """
    if isinstance(loss, dict):
        named = metrics or {}
        return {name: metrics_of_logits(one, loss.get(name)) for name, one in named.items()}

    def of_logits(metric):
        if metric in ("accuracy", "acc", "binary_accuracy") and isinstance(loss, SIGMOIDS):
            return keras.metrics.BinaryAccuracy(name=metric, threshold=0.0)
        return metric

    return keras.tree.map_structure(of_logits, metrics)


def check_form(labels: Any, logits: Any, loss: Any) -> None:
    """Raises `ValueError` if the loss takes numbers of classes and labels have a value for each
    output, or the other way round.

    Keras would stretch one number over all outputs.
    """
    if isinstance(logits, dict):
        for name, one in logits.items():
            check_form(labels[name], one, loss[name])
        return
    if labels is None:
        raise ValueError("Write `fit({'source': ..., 'target': ...}, labels)`. Received: no labels")
    if isinstance(labels, dict):
        raise TypeError(f"Give all labels as one array. Received: a dict of {list(labels)}")
    reject_text_labels(labels)
    outputs, fewer_axes = logits.shape[-1], len(labels.shape) < len(logits.shape)
    found = keras.losses.get(loss) if isinstance(loss, str) else loss
    is_keras = getattr(found, "__module__", "").startswith("keras.")
    if not is_keras or outputs == 1 or (labels.shape[-1] is None and not fewer_axes):
        return
    numbers = fewer_axes or labels.shape[-1] == 1
    if numbers != isinstance(loss, keras.losses.SparseCategoricalCrossentropy):
        raise ValueError(
            "Numbers of classes go with `SparseCategoricalCrossentropy`, which is meant without a "
            f"loss. Labels with a value for each of the {outputs} outputs go with `compile(loss="
            "keras.losses.CategoricalCrossentropy(from_logits=True))`, or, for several classes an "
            "example, `keras.losses.BinaryCrossentropy(from_logits=True)`. Received: "
            f"loss={loss!r} and labels of shape {tuple(labels.shape)}"
        )


def check_range(x: Any, y: Any, model: Any) -> None:
    """Raises an error unless all labels are values that the loss and the method take.

    It looks at arrays in memory alone.
    """
    if isinstance(y, list | tuple):  # Keras takes those for several outputs
        raise TypeError("Give all labels as one array, `np.asarray(labels)`. Received: a list")
    domains = x.domains.values() if isinstance(x, Pairs) else ()
    columns = [getattr(getattr(one, "examples", None), "columns", {}) for one in domains]
    for labels in [y, *(one.get("labels") for one in columns)]:
        if isinstance(labels, np.ndarray) and getattr(model, "loss", None):
            _check_values(labels, model)


def _check_values(labels, model):
    loss, model.is_multi_label = model.loss, False
    reject_text_labels(labels)
    if isinstance(loss, keras.losses.SparseCategoricalCrossentropy):
        check_class_range("labels", labels[labels != loss.ignore_class], model.num_classes)
    elif isinstance(loss, SIGMOIDS) and not ((labels >= 0) & (labels <= 1)).all():
        raise ValueError(
            f"{type(loss).__name__} takes labels from 0 to 1; for numbers of classes give "
            f"`num_classes` and no loss. Received: from {labels.min()} to {labels.max()}"
        )
    elif labels.ndim > 1 and labels.shape[-1] == model.num_classes > 1:
        sums = labels.sum(axis=-1)  # 0 of an example that does not count
        if labels.min() < 0 or not (np.isclose(sums, 1, atol=1e-3) | (sums == 0)).all():
            refuse_classes(model, "labels with several values an example")
            if isinstance(loss, SHARES):
                raise ValueError(
                    f"{type(loss).__name__} takes the shares of one class, which sum to 1; several "
                    "classes an example go with `keras.losses.BinaryCrossentropy(from_logits=True)`"
                    f". Received: sums from {sums.min()} to {sums.max()}"
                )
            if not isinstance(loss, SIGMOIDS) and np.isin(labels, (0, 1)).all():
                model.is_multi_label = True  # which scores ask
                warnings.warn(
                    "With a loss of one's own, `accuracy` takes labels of several classes an "
                    "example for one class: give `keras.losses.BinaryCrossentropy(from_logits=True)"
                    "`, or `keras.metrics.BinaryAccuracy(threshold=0.0)` as a metric",
                    stacklevel=2,
                )


def refuse_classes(model: Any, received: str) -> None:
    """Raises `ValueError` if a method or one of its regularizers compares classes."""
    parts = [model, *model.regularizers]
    names = [f"`{type(part).__name__}`" for part in parts if part.needs_classes]
    if names:
        raise ValueError(
            f"{' and '.join(names)} compare at least two classes, of which each example has one; "
            f"`DANN` and `MDAN` take any labels. Received: {received}"
        )
