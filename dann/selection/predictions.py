"""Logits and features of a model, in double precision, and the checks of a score's arguments."""

import operator
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from scipy import special

from dann.adaptation import AdversarialModel
from dann.adaptation.plain_network import graph_of
from dann.checks import check_class_range, check_integer
from dann.data.labels import class_numbers


class NotFiniteError(ValueError):
    """The outputs of a model are NaN or infinite."""


class RememberingModel:
    """A model that computes its logits and its features of an array once.

    Every score takes it as the model. Make a new one after the weights have changed.
    """

    def __init__(self, model: Any):
        self.model = model
        self._known = {}

    def recall(
        self, compute: Callable[..., np.ndarray], inputs: Any, batch_size: int
    ) -> np.ndarray:
        """Returns `compute(model, inputs, batch_size)`, from memory after the first time."""
        key = compute, id(inputs)
        if key not in self._known:
            # The inputs are kept too, because no other array may get their identity.
            self._known[key] = inputs, compute(self.model, inputs, batch_size)
        return self._known[key][1]


def logits(model: keras.Model | RememberingModel, inputs: Any, batch_size: int) -> np.ndarray:
    """Returns the logits of `batch_size` inputs `(n, ...)` at a time, float64 `(n, num_classes)`.

    If each row of outputs is from 0 to 1 with a sum of 1, the model ends in a softmax, and the
    logarithms of the outputs are its logits.

    Raises:
        NotFiniteError: If a logit is not finite.
        ValueError: If the model does not give one logit for each of at least 2 classes.
    """
    if isinstance(model, RememberingModel):
        return model.recall(logits, inputs, batch_size)
    network = model.classifier if isinstance(model, AdversarialModel) else model
    values = _in_batches(network, inputs, batch_size, "logits")
    if values.ndim != 2 or values.shape[1] < 2:
        raise ValueError(
            "The model must give logits `(batch, num_classes)` of at least 2 classes. "
            f"Received: outputs of shape {('batch', *values.shape[1:])}"
        )
    rows = np.abs(values.sum(axis=1) - 1) < 1e-3
    if rows.all() and values.min() >= 0:
        return np.log(np.maximum(values, np.finfo("float32").tiny))
    return values


def probabilities(
    model: keras.Model | RememberingModel, inputs: Any, batch_size: int
) -> np.ndarray:
    """Returns the softmax of the logits of inputs, float64 `(n, num_classes)`; see `logits`."""
    return special.softmax(logits(model, inputs, batch_size), axis=1)


def features(model: keras.Model | RememberingModel, inputs: Any, batch_size: int) -> np.ndarray:
    """Returns the features of inputs, float64 `(n, num_features)`; see `logits`.

    Raises:
        NotFiniteError: If a feature is not finite.
        TypeError: Unless the model is a `dann.adaptation.AdversarialModel`.
    """
    if isinstance(model, RememberingModel):
        return model.recall(features, inputs, batch_size)
    if not isinstance(model, AdversarialModel):
        raise TypeError(
            "This score needs the features of a `dann.adaptation.AdversarialModel`, which has a "
            f"`backbone`. Received: {type(model).__name__}"
        )
    return _in_batches(model.backbone, inputs, batch_size, "features")


def check_target(target: Any, least: int = 1) -> Any:
    """Returns the target's inputs, an array or a dict of them, if they are `least` examples."""
    if not _is_inputs(target):
        raise TypeError(
            "Argument `target` must be one array or tensor of inputs, or a dict of them, because a "
            "score sees no labels of the target; for a list of rows, `numpy.asarray(rows)`. "
            f"Received: {type(target).__name__}"
        )
    _check_size("target", target, least)
    return target


def check_source(source: Any, least: int = 1) -> tuple[Any, np.ndarray]:
    """Returns inputs `(n, ...)` and labels `(n,)` of the held-out source, at least `least`."""
    if not isinstance(source, tuple | list) or len(source) != 2 or not _is_inputs(source[0]):
        raise TypeError(
            "Argument `source` must be arrays `(inputs, labels)` of held-out source examples; "
            "for a list of rows, `numpy.asarray(rows)`. "
            f"Received: {type(source).__name__}"
        )
    inputs, labels = source[0], class_numbers(source[1], "labels of `source`")
    if len(labels) != count_of(inputs):
        raise ValueError(
            "Argument `source` must have one label for each input. Received: "
            f"{count_of(inputs)} inputs and {len(labels)} labels"
        )
    _check_size("source", inputs, least)
    return inputs, labels


def source_logits(
    model: keras.Model | RememberingModel, source: Any, batch_size: int, least: int = 1
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Returns the inputs and labels of the source, checked, and the model's logits of them."""
    inputs, labels = check_source(source, least)
    values = logits(model, inputs, batch_size)
    check_class_range("Labels of the source", labels, values.shape[1])
    return inputs, labels, values


def indexable(values: Any) -> Any:
    """Converts tensors, which need not take arrays of indices, to arrays; keeps all else."""
    if isinstance(values, dict):
        return {name: indexable(value) for name, value in values.items()}
    of_numpy = isinstance(getattr(values, "dtype", np.dtype("O")), np.dtype)
    return values if of_numpy else np.asarray(values)


def count_of(inputs: Any) -> int:
    """Returns the number of examples of an array or a dict of them."""
    return len(keras.tree.flatten(inputs)[0])


def _is_inputs(values):
    """Whether it is an array, a tensor of any library or an array-like, or a dict of them."""
    if isinstance(values, dict):
        return bool(values) and all(map(_is_inputs, values.values()))
    return hasattr(values, "dtype") and len(getattr(values, "shape", ())) > 0


def _check_size(domain, inputs, least):
    count = count_of(inputs)
    if count < least:
        raise ValueError(
            f"The {domain} must hold at least {least} example{'s' if least > 1 else ''}. "
            f"Received: {count}"
        )


def check_names(model: Any, inputs: Any) -> None:
    """Raises a `TypeError` unless a dict has the names of the network's inputs and no others."""
    network = model.model if isinstance(model, RememberingModel) else model
    network = network.classifier if isinstance(network, AdversarialModel) else network
    graph = graph_of(network)
    taken = graph[0] if graph else inputs
    if isinstance(inputs, dict) and (not isinstance(taken, dict) or set(taken) != set(inputs)):
        wanted = sorted(taken) if isinstance(taken, dict) else "one array"
        raise TypeError(
            "Inputs must be given as the model takes them, because a score sees no labels of the "
            f"target: {wanted}. Received: a dict with {sorted(inputs)}"
        )


def _in_batches(network, inputs, batch_size, what):
    check_integer("batch_size", batch_size, 1)
    check_names(network, inputs)
    parts, inputs, count = [], indexable(inputs), count_of(inputs)
    for start in range(0, count, batch_size):
        # An array-like of files need not take slices.
        rows = np.arange(start, min(start + batch_size, count))
        batch = keras.tree.map_structure(operator.itemgetter(rows), inputs)
        outputs = keras.ops.convert_to_numpy(network(batch, training=False))
        parts.append(np.asarray(outputs, "float64"))
    values = np.concatenate(parts)
    broken = int((~np.isfinite(values).reshape(len(values), -1).all(axis=1)).sum())
    if broken:
        raise NotFiniteError(
            f"The {what} must be finite numbers; has the training diverged? "
            f"Received: others for {broken} of {len(values)} inputs"
        )
    return values
