"""Losses, metrics and labels of a network that returns logits."""

import warnings
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.checks import check_class_range
from dann.data.conversion import reject_text_labels
from dann.data.pairs import Pairs

# Losses of multi-label problems: a sigmoid per output.
MULTI_LABEL_LOSSES = keras.losses.BinaryCrossentropy, keras.losses.BinaryFocalCrossentropy
ONE_HOT_LOSSES = keras.losses.CategoricalCrossentropy, keras.losses.CategoricalFocalCrossentropy
_LOSS_ADVICE = (
    "For class numbers leave out `loss`, or use `SparseCategoricalCrossentropy(from_logits=True)` "
    "of `keras.losses`; for one-hot labels `CategoricalCrossentropy(from_logits=True)`, for "
    "multi-label data `BinaryCrossentropy(from_logits=True)`."
)


def get_logits_loss(loss: Any, model: Any, shape: Any) -> Any:
    """Returns the loss for `compile`; defaults to the cross-entropy of classes.

    Args:
        loss: Loss from logits, or `None`. A dict if the label head returns a dict.
        model: The method, for the message.
        shape: Shape of the logits, or a dict of shapes.

    Raises:
        ValueError: If the loss takes probabilities, if there are several losses, if there is no
            loss for a single output, if the loss is multi-label and the method requires mutually
            exclusive classes, or if the names of losses and logits differ.
    """
    if isinstance(shape, dict):
        if not isinstance(loss, dict) or set(loss) != set(shape):
            raise ValueError(
                f"Expected a dict of losses with the keys {sorted(shape)}. Received: loss={loss!r}."
            )
        return {name: get_logits_loss(loss[name], model, shape[name]) for name in shape}
    if loss is None:
        if shape[-1] == 1:
            raise ValueError(
                "Expected a `loss`, such as 'mse', because a label head with one output predicts a "
                "number. Received: no loss, which means the cross-entropy of classes."
            )
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    losses = keras.tree.flatten(loss)
    if len(losses) != 1:
        raise ValueError(f"Expected one loss, for the labels. Received: loss={loss!r}.")
    loss = losses[0]
    function = keras.losses.get(loss) if isinstance(loss, str) else loss
    name = getattr(function, "__name__", "")
    takes_probabilities = name == "kl_divergence" or name.endswith("crossentropy")
    is_keras = getattr(keras.losses, name, None) is function
    if (is_keras and takes_probabilities) or not getattr(function, "from_logits", True):
        raise ValueError(
            "Expected a `loss` of logits, because the label head returns logits. Received: "
            f"loss={loss!r}, a loss of probabilities. {_LOSS_ADVICE}"
        )
    if isinstance(loss, MULTI_LABEL_LOSSES):
        require_exclusive_classes(model, f"{type(loss).__name__}, a multi-label loss")
    return loss


def get_logits_metrics(metrics: Any, loss: Any) -> Any:
    """Returns the metrics for `compile`, with a multi-label accuracy for a multi-label loss.

    For `"accuracy"`, Keras would choose a metric that compares labels with probabilities. A logit
    predicts its class if it is above 0, so the metric here has this threshold. With other losses,
    Keras chooses the right metric by the shapes of labels and outputs.
    """
    if isinstance(loss, dict):
        return {
            name: get_logits_metrics(metric, loss.get(name))
            for name, metric in (metrics or {}).items()
        }
    if not isinstance(loss, MULTI_LABEL_LOSSES):
        return metrics

    def get_metric(metric):
        if metric in ("accuracy", "acc", "binary_accuracy"):
            return keras.metrics.BinaryAccuracy(name=metric, threshold=0.0)
        return metric

    return keras.tree.map_structure(get_metric, metrics)


def check_label_format(labels: Any, logits: Any, loss: Any) -> None:
    """Checks that labels have the format that the loss requires.

    Labels are class numbers or contain one value per output. Without this check, Keras would
    broadcast a class number over all outputs.

    Raises:
        ValueError: If the loss requires the other format.
        TypeError: If labels are missing, a dict or strings.
    """
    if isinstance(logits, dict):
        for name, output in logits.items():
            check_label_format(labels[name], output, loss[name])
        return
    if labels is None:
        raise TypeError(
            "Expected labels. Received: no labels. Write `fit({'source': ..., 'target': ...}, "
            "labels)`. If validation data have no labels, use `dann.selection.SelectionScores`."
        )
    if isinstance(labels, dict):
        raise TypeError(
            "Expected labels in one array, because the model has one output. Received: a dict of "
            f"{list(labels)}. Write `fit({{'source': ..., 'target': ...}}, labels)`."
        )
    reject_text_labels(labels)
    outputs, has_fewer_axes = logits.shape[-1], len(labels.shape) < len(logits.shape)
    function = keras.losses.get(loss) if isinstance(loss, str) else loss
    is_keras = getattr(function, "__module__", "").startswith("keras.")
    if not is_keras or outputs == 1 or (labels.shape[-1] is None and not has_fewer_axes):
        return
    are_numbers = has_fewer_axes or labels.shape[-1] == 1
    if are_numbers != isinstance(loss, keras.losses.SparseCategoricalCrossentropy):
        raise ValueError(
            "Expected class numbers with `SparseCategoricalCrossentropy`, the default loss, or "
            f"labels with {outputs} values per example with another loss. Received: loss={loss!r} "
            f"and labels of shape {tuple(labels.shape)}. {_LOSS_ADVICE}"
        )


def check_labels(x: Any, y: Any, model: Any) -> None:
    """Checks that labels in memory have values that the loss and the method accept.

    Raises:
        TypeError: If labels are a list or strings.
        ValueError: If a value is out of range.
    """
    if isinstance(y, list | tuple):  # Keras would treat them as labels of several outputs
        raise TypeError("Expected labels in one array. Received: a list. Use `np.asarray(labels)`.")
    domains = x.domains.values() if isinstance(x, Pairs) else ()
    columns = [getattr(getattr(domain, "examples", None), "columns", {}) for domain in domains]
    for labels in [y, *(column.get("labels") for column in columns)]:
        if hasattr(labels, "__array__") and getattr(model, "loss", None):
            _check_values(ops.convert_to_numpy(labels), model)


def _check_values(labels, model):
    loss, model.is_multi_label = model.loss, False
    reject_text_labels(labels)
    if isinstance(loss, keras.losses.SparseCategoricalCrossentropy):
        check_class_range("labels", labels[labels != loss.ignore_class], model.num_classes)
    elif isinstance(loss, MULTI_LABEL_LOSSES) and not ((labels >= 0) & (labels <= 1)).all():
        raise ValueError(
            f"Expected labels from 0 to 1 with {type(loss).__name__}. Received: labels from "
            f"{labels.min()} to {labels.max()}. For class numbers pass `num_classes` and no loss."
        )
    elif labels.ndim > 1 and labels.shape[-1] == model.num_classes > 1:
        sums = labels.sum(axis=-1)  # 0 for an example without weight
        if labels.min() < 0 or not (np.isclose(sums, 1, atol=1e-3) | (sums == 0)).all():
            require_exclusive_classes(model, "labels with several values per example")
            if isinstance(loss, ONE_HOT_LOSSES):
                raise ValueError(
                    f"Expected labels that sum to 1 per example with {type(loss).__name__}. "
                    f"Received: sums from {sums.min()} to {sums.max()}. For multi-label data use "
                    "`keras.losses.BinaryCrossentropy(from_logits=True)`."
                )
            if not isinstance(loss, MULTI_LABEL_LOSSES) and np.isin(labels, (0, 1)).all():
                model.is_multi_label = True  # for the scores of `dann.selection`
                warnings.warn(
                    "The labels are multi-label, but with a custom loss Keras computes `accuracy` "
                    "for one class per example. Use `keras.losses.BinaryCrossentropy(from_logits="
                    "True)` or the metric `keras.metrics.BinaryAccuracy(threshold=0.0)`.",
                    stacklevel=2,
                )


def require_exclusive_classes(model: Any, received: str) -> None:
    """Raises a `ValueError` if a method or one of its regularizers requires exclusive classes."""
    terms = [term for term in (model, *model.regularizers) if term.needs_classes]
    if terms:
        names = " and ".join(f"`{type(term).__name__}`" for term in terms)
        raise ValueError(
            f"Expected at least two classes and one class per example, which {names} require(s). "
            f"Received: {received}. `DANN` and `MDAN` accept any labels."
        )
