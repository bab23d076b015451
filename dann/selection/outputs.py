"""What scores read: the outputs of a model on examples of both domains, as arrays."""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np

from dann.adaptation import AdversarialModel
from dann.adaptation.labels import SIGMOIDS
from dann.checks import check_class_range
from dann.data.examples import apply_in_batches, to_class_indices

_OF_NUMBERS = "mse", "mae", "mean_squared_error", "mean_absolute_error", "huber", "log_cosh"


class NotFiniteError(ValueError):
    """The outputs of a model are NaN or infinite."""


class Outputs(NamedTuple):
    """What the scores read, as `compute_outputs` computes it; everything in float64.

    Attributes:
        target_logits: `(n, num_classes)`.
        target_features: `(n, num_features)`.
        mixed_logits: `(n, num_classes)`, of `mixtures` of the target's inputs.
        source_logits: `(m, num_classes)` of held-out examples.
        source_labels: Their classes, integers `(m,)`; in regression numbers.
        source_features: `(m, num_features)`.
    """

    target_logits: Any = None
    target_features: Any = None
    mixed_logits: Any = None
    source_logits: Any = None
    source_labels: Any = None
    source_features: Any = None


def compute_outputs(
    model: Any,
    *,
    source: tuple[Any, Any] | None = None,
    target: Any = None,
    features: bool = True,
    mixed: bool = True,
    batch_size: int = 256,
    predict: Callable[[keras.Model, Any], np.ndarray] | None = None,
) -> Outputs:
    """Computes once what every score reads.

    Args:
        model: `dann.adaptation.AdversarialModel`, or any Keras model from inputs to logits without
            `features`. If every row of its outputs is in [0, 1] with a sum of 1, it is taken to end
            in a softmax, and the logarithms of its outputs are used.
        source: Inputs and labels of source examples that training does not see, if a score needs
            them. Labels are whole numbers `(m,)` or one-hot; any numbers if the label head has one
            output.
        target: Inputs of the target, without labels: an array-like `(n, ...)`, or a list or dict of
            them as the model takes it.
        features: Whether to compute the features, too; the label head then runs on them.
        mixed: Whether to compute the logits of mixtures of the target's inputs.
        batch_size: Inputs at a time. Defaults to `256`.
        predict: Function of a network, a part of the model, and of inputs that returns its outputs
            in inference. Defaults to `None`: calls of the network.

    Raises:
        NotFiniteError: If a logit or feature is not finite; a `ValueError`.
        TypeError: If `target` is a tuple, such as inputs and labels.
        ValueError: If there is no example, a label is out of range, or the model gives no vector
            for an example.
    """

    def run(network, inputs):
        return apply_in_batches(lambda batch: network(batch, training=False), inputs, batch_size)

    predict = predict or run
    given: Any = keras.tree.map_structure(_without_columns, (source, target))
    source, target = given
    found: dict[str, Any] = {}
    if source is not None:
        inputs, labels = source
        found["source_features"], logits = _features_and_logits(model, inputs, features, predict)
        found["source_logits"] = logits
        if logits.shape[1] == 1:  # regression
            found["source_labels"] = np.reshape(labels, len(logits))
        else:
            found["source_labels"] = to_class_indices(labels)
            check_class_range("labels of the source", found["source_labels"], logits.shape[1])
    if target is not None:
        check_unlabelled(target)
        results = _features_and_logits(model, target, features, predict)
        found["target_features"], found["target_logits"] = results
        if mixed:
            _, found["mixed_logits"] = _features_and_logits(model, mixtures(target), False, predict)
    return Outputs(**found)


def _without_columns(values):
    return values.to_numpy() if hasattr(values, "columns") else values


def check_unlabelled(target: Any) -> None:
    """Raises `TypeError` if the target is missing or a tuple, such as inputs and labels."""
    if target is None or isinstance(target, tuple):
        raise TypeError(
            "Give `target=inputs`, alone, because a score sees no labels of the target. "
            f"Received: {type(target).__name__}"
        )


def mixtures(inputs: Any, share: float = 0.55, seed: int = 0) -> Any:
    """Returns array-likes of each example mixed with its partner, computed when rows are read."""
    partner = partners(len(keras.tree.flatten(inputs)[0]), seed)
    return keras.tree.map_structure(lambda part: _Mixed(part, partner, share), inputs)


def partners(count: int, seed: int = 0) -> np.ndarray:
    """Returns for each of some examples the number of another one, drawn at random."""
    order = np.random.default_rng(seed).permutation(count)
    found = np.empty(count, int)
    found[order] = np.roll(order, 1)
    return found


class _Mixed:
    def __init__(self, inputs, partner, share):
        self.inputs, self.partner, self.share = inputs, partner, share

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, rows):
        first = np.asarray(self.inputs[rows], "float32")
        second = np.asarray(self.inputs[self.partner[rows]], "float32")
        return self.share * first + (1 - self.share) * second


def _features_and_logits(model, inputs, features, predict):
    network, found = getattr(model, "classifier", model), None
    if features:
        if not isinstance(model, AdversarialModel):
            raise TypeError(
                f"Features need an `AdversarialModel`. Received: {type(model).__name__}"
            )
        found = finite("features", predict(model.backbone, inputs).astype("float64"))
        if found.ndim == 2:
            network, inputs = model.label_head, found.astype("float32")
    last = getattr(network, "layers", [network])[-1]
    activation = getattr(last, "activation", None)
    loss = getattr(model, "loss", None)
    several = isinstance(loss, SIGMOIDS) or getattr(model, "is_multi_label", False)
    if several or activation is keras.activations.sigmoid:
        raise ValueError(
            "The model must give logits of classes of which each example has one. "
            "Received: outputs for several labels an example, or of a sigmoid; of two classes "
            "write `num_classes=2`"
        )
    values = _logits(predict(network, inputs).astype("float64"))
    name = loss if isinstance(loss, str) else getattr(loss, "name", None)
    if values.shape[1] > 1 and name in _OF_NUMBERS:
        raise ValueError(
            "Scores take classes, or numbers of one output. "
            f"Received: loss={name!r} and {values.shape[1]} outputs"
        )
    return found, values


def _logits(values):
    if values.ndim != 2:
        raise ValueError(
            "The model must give logits `(batch, num_classes)` or numbers `(batch, 1)`; pool maps. "
            f"Received: outputs of shape {('batch', *values.shape[1:])}"
        )
    finite("logits", values)
    sums_to_one = values.shape[1] > 1 and (np.abs(values.sum(axis=1) - 1) < 1e-3).all()
    if sums_to_one and values.min() >= 0:
        return np.log(np.maximum(values, np.finfo("float32").tiny))
    return values


def finite(what: str, values: np.ndarray) -> np.ndarray:
    """Returns the values; raises `NotFiniteError` if some of them are not finite."""
    broken = int((~np.isfinite(values).reshape(len(values), -1).all(axis=1)).sum())
    if broken:
        raise NotFiniteError(
            f"The {what} must be finite numbers; has the training diverged? "
            f"Received: others for {broken} of {len(values)} inputs"
        )
    return values
