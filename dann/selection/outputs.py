"""What a model gives for arrays of inputs: checked, and in double precision."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from scipy import special

from dann.adaptation import AdversarialModel


class NotFiniteError(ValueError):
    """A model gave outputs that are no numbers, or infinite."""


class Remembering:
    """A model as it is at this moment: what it gives for the same array is computed once.

    Every score takes it for the model. Make a new one after the weights have changed.

    Args:
        model: The model.
    """

    def __init__(self, model: Any):
        self.model = model
        self._known = {}

    def recall(self, kind: str, inputs: Any, compute: Callable[[], np.ndarray]) -> np.ndarray:
        """Returns what was computed for this array before, or else computes it."""
        if (kind, id(inputs)) not in self._known:
            # The inputs are kept too, so that no other array gets their identity.
            self._known[kind, id(inputs)] = inputs, compute()
        return self._known[kind, id(inputs)][1]


def logits(model: keras.Model | Remembering, inputs: Any, batch_size: int) -> np.ndarray:
    """Returns the logits of `inputs` `(n, num_classes)`.

    Args:
        model: Model from inputs to logits.
        inputs: Inputs `(n, ...)`, an array, a tensor or what is indexed like an array.
        batch_size: Inputs at a time, at least 1.

    Raises:
        NotFiniteError: If a logit is not finite.
        ValueError: If what the model gives is not one logit a class, for 2 classes or more.
    """
    if isinstance(model, Remembering):
        return model.recall("logits", inputs, lambda: logits(model.model, inputs, batch_size))
    network = model.classifier if isinstance(model, AdversarialModel) else model
    values = _in_batches(network, inputs, batch_size, "logits")
    if values.ndim != 2 or values.shape[1] < 2:
        raise ValueError(
            "The model must give logits `(batch, num_classes)` of at least 2 classes. "
            f"Received: outputs of shape {('batch', *values.shape[1:])}"
        )
    return values


def probabilities(model: keras.Model | Remembering, inputs: Any, batch_size: int) -> np.ndarray:
    """Returns the softmax of the logits of `inputs` `(n, num_classes)`; see `logits`."""
    return special.softmax(logits(model, inputs, batch_size), axis=1)


def features(model: keras.Model | Remembering, inputs: Any, batch_size: int) -> np.ndarray:
    """Returns the features of `inputs` `(n, num_features)`; see `logits`.

    Raises:
        NotFiniteError: If a feature is not finite.
        TypeError: If the model is no `dann.adaptation.AdversarialModel`.
    """
    if isinstance(model, Remembering):
        return model.recall("features", inputs, lambda: features(model.model, inputs, batch_size))
    if not isinstance(model, AdversarialModel):
        raise TypeError(
            "This score needs the features of a `dann.adaptation.AdversarialModel`, which has a "
            f"`backbone`. Received: {type(model).__name__}"
        )
    return _in_batches(model.backbone, inputs, batch_size, "features")


def check_target(target: Any, least: int = 1) -> Any:
    """Returns the target's inputs if they are inputs alone, and enough.

    Args:
        target: Inputs `(n, ...)`, an array, a tensor or what is indexed like an array.
        least: Fewest examples.

    Raises:
        TypeError: If labels may be among them.
        ValueError: If they are too few.
    """
    if not _is_array(target):
        raise TypeError(
            "Argument `target` must be one array or tensor of inputs, for a list of rows "
            "`numpy.asarray(rows)`: a score sees no labels of the target. "
            f"Received: {type(target).__name__}"
        )
    _check_size("target", target, least)
    return target


def check_source(source: Any, least: int = 1) -> tuple[Any, np.ndarray]:
    """Returns the held-out source's inputs and labels.

    Args:
        source: Inputs `(n, ...)` and integer labels `(n,)`.
        least: Fewest examples.

    Raises:
        TypeError: If it is not a pair.
        ValueError: If there is not one integer label for each input, or they are too few.
    """
    if not isinstance(source, tuple | list) or len(source) != 2 or not _is_array(source[0]):
        raise TypeError(
            "Argument `source` must be the arrays `(inputs, labels)` of held-out source examples, "
            "`numpy.asarray(rows)` for a list of rows. "
            f"Received: {type(source).__name__}"
        )
    inputs, labels = source[0], np.asarray(source[1])
    if labels.shape != (len(inputs),) or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            "Argument `source` must have one integer label for each input. Received: "
            f"{len(inputs)} inputs, labels of shape {labels.shape} and type {labels.dtype}"
        )
    _check_size("source", inputs, least)
    return inputs, labels


def check_labels_fit(labels: np.ndarray, num_classes: int) -> np.ndarray:
    """Returns the labels of the source if the model has a logit for each.

    Raises:
        ValueError: If one is below 0 or not below `num_classes`.
    """
    if labels.min() < 0 or labels.max() >= num_classes:
        raise ValueError(
            f"Labels of the source must be at least 0 and below the model's {num_classes} "
            f"classes. Received: labels from {labels.min()} to {labels.max()}"
        )
    return labels


def indexable(values: Any) -> Any:
    """Returns a tensor, which need not know arrays of indices, as an array; all else as it is."""
    of_numpy = isinstance(getattr(values, "dtype", np.dtype("O")), np.dtype)
    return values if of_numpy else np.asarray(values)


def _is_array(values):
    """Whether it is an array, a tensor of any library, or like one but not in memory."""
    return hasattr(values, "dtype") and len(getattr(values, "shape", ())) > 0


def _check_size(domain, inputs, least):
    if len(inputs) < least:
        raise ValueError(
            f"The {domain} must hold at least {least} example{'s' if least > 1 else ''}. "
            f"Received: {len(inputs)}"
        )


def _in_batches(network, inputs, batch_size, what):
    if batch_size < 1:
        raise ValueError(f"Argument `batch_size` must be at least 1. Received: {batch_size}")
    parts, inputs = [], indexable(inputs)
    for start in range(0, len(inputs), batch_size):
        # By indices, because what reads files need not know slices.
        batch = inputs[np.arange(start, min(start + batch_size, len(inputs)))]
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
