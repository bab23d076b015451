"""Losses and metrics for a network whose outputs are logits of classes."""

import functools
import inspect
from typing import Any

import keras

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
# Losses that compare probabilities or counts, and cannot be told that outputs are logits.
_OF_PROBABILITIES_ALONE = ("categoricalgeneralizedcrossentropy", "dice", "tversky")
# Metrics that count what is above thresholds of probabilities, and cannot be told either.
_COUNTS = (
    *("truepositives", "falsepositives", "truenegatives", "falsenegatives"),
    *("precisionatrecall", "recallatprecision"),
    *("sensitivityatspecificity", "specificityatsensitivity"),
)
# Metrics that take outputs for probabilities, and what makes them take logits.
_OF_PROBABILITIES = {
    "auc": ("AUC", {"from_logits": True}),
    "binaryaccuracy": ("BinaryAccuracy", {"threshold": 0.0}),
    "binaryiou": ("BinaryIoU", {"threshold": 0.0}),
    "precision": ("Precision", {"thresholds": 0.0}),
    "recall": ("Recall", {"thresholds": 0.0}),
}
# Those of them that nobody defines by a threshold where several classes share one softmax.
_OF_CLASSES = {
    "auc": "scikit-learn's `roc_auc_score` of `keras.ops.softmax(model.predict(inputs))`",
    "binaryaccuracy": "'accuracy'",
    "binaryiou": "`keras.metrics.MeanIoU(..., sparse_y_pred=False)`",
    "precision": "`keras.metrics.Precision(top_k=1)` with one-hot labels",
    "recall": "`keras.metrics.Recall(top_k=1)` with one-hot labels",
}


def loss_of_logits(loss: Any) -> Any:
    """Returns the loss for `compile`; a name stands for the loss from logits.

    Raises:
        ValueError: If it is a loss of probabilities, or several losses.
    """
    if isinstance(loss, list | tuple | dict):
        raise ValueError(
            "Argument `loss` must be one loss, because the label head has one output. Received: a "
            f"{type(loss).__name__} of {len(loss)}"
        )
    if not isinstance(loss, keras.losses.Loss):
        found = keras.losses.get(loss) if isinstance(loss, str) else loss
        name = FROM_LOGITS.get(_plain_name(found))
        if name is not None:
            return getattr(keras.losses, name)(from_logits=True)
        of_probabilities = ("kldivergence", *_OF_PROBABILITIES_ALONE)
        loss = found if _plain_name(found) in of_probabilities else loss
        if isinstance(found, functools.partial) and not found.keywords.get("from_logits"):
            _refuse_partial(found.func)
    _refuse_probabilities("loss", loss, "losses")
    if _plain_name(loss) in _OF_PROBABILITIES_ALONE and _is_of_keras(loss):
        name = getattr(loss, "__name__", type(loss).__name__)
        raise ValueError(
            "Argument `loss` must take logits, because that is what the label head gives: write a "
            "function `(labels, logits)` that returns the loss of `keras.ops.softmax(logits)`. "
            f"Received: {name} of probabilities"
        )
    return loss


def is_of_logits(loss: Any) -> bool:
    """Returns whether it is one of Keras's cross-entropies, which `compile` makes take logits."""
    return type(loss).__name__ in FROM_LOGITS.values()


def metrics_of_logits(metrics: Any, loss: Any) -> Any:
    """Returns the metrics for `compile`; a name stands for the metric of logits.

    With a binary cross-entropy `"accuracy"` and `"binary_accuracy"` take outputs above 0 for the
    class 1.

    Raises:
        ValueError: If one is a metric of probabilities or, beside a cross-entropy of several
            classes, compares each class with a threshold that is not given.
    """
    return keras.tree.map_structure(lambda metric: _metric_of_logits(metric, loss), metrics)


def _metric_of_logits(metric, loss):
    of_logits = is_of_logits(loss)
    if inspect.isfunction(metric) and _plain_name(metric) in FROM_LOGITS:
        metric = metric.__name__
    if of_logits:
        _refuse_counts(metric)
        _refuse_f_score(metric, loss)
        if not _is_binary(loss):
            _refuse_threshold(metric)
    if not isinstance(metric, str):
        _refuse_probabilities("metrics", metric, "metrics")
        _refuse_numbers_of_classes(metric)
        if of_logits:
            _refuse_half(metric)
        return metric
    if _is_binary(loss) and metric in ("accuracy", "acc"):
        return keras.metrics.BinaryAccuracy(name=metric, threshold=0.0)
    known = _OF_PROBABILITIES.get(_plain_name(metric)) if of_logits else None
    if known is not None:
        name = metric if metric.islower() else None  # of a class, Keras takes its own
        return getattr(keras.metrics, known[0])(name=name, **known[1])
    same = type(loss).__name__ if metric in ("crossentropy", "ce") else ""
    meant = _plain_name({"bce": "binary_crossentropy"}.get(metric.lower(), metric))
    if meant == "kldivergence":
        _refuse_probabilities("metrics", keras.losses.kl_divergence, "metrics")
    name = FROM_LOGITS.get(meant, same)
    kind = getattr(keras.metrics, name, None) if name in FROM_LOGITS.values() else None
    return metric if kind is None else kind(from_logits=True, name=metric)


def _refuse_partial(function):
    """Refuses a cross-entropy of Keras whose other arguments are filled in, but `from_logits`."""
    name = FROM_LOGITS.get(_plain_name(function))
    if name is not None:
        raise ValueError(
            "Argument `loss` must take logits, because that is what the label head gives: use "
            f"`keras.losses.{name}(from_logits=True)`. Received: a partial {function.__name__} of "
            "probabilities"
        )


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


def _refuse_counts(metric):
    """Refuses a metric that counts by thresholds of probabilities, whatever they are."""
    if _plain_name(metric) in _COUNTS:
        name = metric if isinstance(metric, str) else type(metric).__name__
        raise ValueError(
            "Argument `metrics` must take logits, because that is what the label head gives: use "
            "scikit-learn with `keras.ops.sigmoid` or `keras.ops.softmax` of "
            f"`model.predict(inputs)`. Received: {name} of probabilities"
        )


def _refuse_threshold(metric):
    """Refuses a metric that asks of each class alone whether its probability is large."""
    use = _OF_CLASSES.get(_plain_name(metric))
    if use is not None and _takes_probabilities(metric):
        raise ValueError(
            f"Argument `metrics` must be defined for several classes: use {use}. Received: "
            f"{_OF_PROBABILITIES[_plain_name(metric)][0]}, which looks at each class alone"
        )


def _refuse_half(metric):
    """Refuses a metric that takes outputs above .5 for the class, as it does unless told."""
    if _takes_probabilities(metric):
        name, arguments = _OF_PROBABILITIES[_plain_name(metric)]
        raise ValueError(
            "Argument `metrics` must take logits, because that is what the label head gives: use "
            f"`keras.metrics.{name}({next(iter(arguments))}=0.0)`. Received: {name} that takes "
            "outputs above 0.5 for the class"
        )


def _takes_probabilities(metric):
    """Whether a metric, or its name, is one that takes probabilities unless told, and is not."""
    _, arguments = _OF_PROBABILITIES.get(_plain_name(metric), ("", {}))
    if not arguments or getattr(metric, "top_k", None) is not None:
        return False
    (argument,) = arguments
    if argument == "from_logits":
        return not getattr(metric, "_from_logits", False)
    return getattr(metric, argument, 0.5) in (0.5, [0.5])  # a function's default


def _refuse_f_score(metric, loss):
    """Refuses an F score that compares outputs with a threshold, which Keras wants in (0, 1]."""
    if isinstance(metric, str) and _plain_name(metric) in ("f1score", "fbetascore"):
        metric = keras.metrics.get(metric)
    if not isinstance(metric, keras.metrics.FBetaScore):
        return
    binary = _is_binary(loss)
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


def _is_of_keras(thing):
    return getattr(thing, "__module__", type(thing).__module__).startswith("keras.")


def _is_binary(loss):
    return type(loss).__name__.startswith("Binary")


def _plain_name(thing):
    """Returns a loss's name in one spelling: `sparse_cross` and `SparseCross` become equal."""
    name = thing if isinstance(thing, str) else getattr(thing, "__name__", type(thing).__name__)
    return name.replace("_", "").lower()
