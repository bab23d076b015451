"""The outputs of a model on examples of both domains, as arrays that the scores read."""

from typing import Any, NamedTuple

import keras
import numpy as np

from dann.adaptation import AdversarialModel
from dann.adaptation.labels import MULTI_LABEL_LOSSES
from dann.adaptation.networks import check_network
from dann.adaptation.prediction import check_finite_outputs, predict
from dann.checks import check_class_range
from dann.data.conversion import frames_to_arrays, to_class_indices
from dann.data.examples import check_frame_columns
from dann.data.lazy_array import LazyArray

_MIXTURE_WEIGHT = 0.55  # of an example; its partner has the rest
_REGRESSION_LOSSES = "mse", "mae", "mean_squared_error", "mean_absolute_error", "huber", "log_cosh"


class Outputs(NamedTuple):
    """The arrays that scores read, in float64, as `compute_outputs` returns them.

    Attributes:
        target_logits: `(n, num_classes)`.
        target_features: `(n, num_features)`.
        mixed_logits: `(n, num_classes)` for mixtures of the target's inputs; see `mix`.
        source_logits: `(m, num_classes)` for held-out source examples.
        source_labels: Classes of the held-out source examples, integers `(m,)`; numbers in
            regression.
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
) -> Outputs:
    """Computes the outputs that the scores read, once for all scores.

    Args:
        model: `dann.adaptation.AdversarialModel`; or, without `features`, any Keras model from
            inputs to logits. If every row of the outputs is in [0, 1] and sums to 1, the outputs
            are taken for probabilities, and their logarithms are used.
        source: Inputs and labels of source examples that training does not see. Labels are integers
            `(m,)` or one-hot, or any numbers if the label head has one output. Defaults to `None`.
        target: Inputs of the target, without labels: an array-like `(n, ...)`, or a list or dict of
            array-likes for a model with several inputs. Defaults to `None`.
        features: Whether to compute the features, too. The label head then runs on the features.
        mixed: Whether to compute the logits of mixtures of the target's inputs.
        batch_size: Number of examples per batch. Defaults to `256`.

    Raises:
        NotFiniteError: If a logit or feature is not finite. It is a `ValueError`.
        TypeError: If `model` is not a Keras model, `source` is not a pair, or `target` is a tuple,
            such as inputs and labels.
        ValueError: If there is no example, a label is out of range or missing, frames have other
            columns than in `fit`, or the model does not return a vector for each example.
    """
    results: dict[str, Any] = {}
    columns = getattr(model, "frame_columns", ())
    check_frame_columns(target, columns)
    if source is not None:
        if not isinstance(source, tuple | list) or len(source) != 2:
            raise TypeError(
                f"Expected `source=(inputs, labels)`. Received: {type(source).__name__}"
            )
        check_frame_columns(source[0], columns)
        inputs, labels = frames_to_arrays(source)
        source_features, logits = _run_model(model, inputs, features, batch_size)
        results |= {"source_features": source_features, "source_logits": logits}
        results["source_labels"] = convert_source_labels(labels, logits)
    if target is not None:
        check_unlabeled(target)
        inputs = frames_to_arrays(target)
        target_features, logits = _run_model(model, inputs, features, batch_size)
        results |= {"target_features": target_features, "target_logits": logits}
        if mixed:
            results["mixed_logits"] = _run_model(model, mix(inputs), False, batch_size)[1]
    return Outputs(**results)


def convert_source_labels(labels: Any, logits: np.ndarray) -> np.ndarray:
    """Returns the class numbers `(m,)` of logits `(m, num_classes)`, or numbers in regression."""
    if np.shape(labels)[:1] != (len(logits),):
        raise ValueError(
            f"Expected one label for each of the {len(logits)} source examples. Received: labels "
            f"of shape {np.shape(labels)}"
        )
    if logits.shape[1] == 1:  # regression
        return np.reshape(labels, len(logits))
    classes = to_class_indices(labels)
    check_class_range("labels of the source", classes, logits.shape[1])
    return classes


def check_unlabeled(target: Any) -> None:
    """Raises `TypeError` if the target is missing or a tuple, such as inputs and labels."""
    if target is None or isinstance(target, tuple):
        raise TypeError(
            "Expected `target=inputs`, without labels, because no score sees labels of the target. "
            f"Received: {type(target).__name__}"
        )


def mix(inputs: Any) -> Any:
    """Returns array-likes of each example mixed with a partner. Rows are computed when read."""
    partners = draw_permutation_partners(len(keras.tree.flatten(inputs)[0]))

    def mix_array(array):
        def read(rows):
            first = np.asarray(array[rows], "float32")
            second = np.asarray(array[partners[rows]], "float32")
            return _MIXTURE_WEIGHT * first + (1 - _MIXTURE_WEIGHT) * second

        return LazyArray(array.shape, np.dtype("float32"), read)

    return keras.tree.map_structure(mix_array, inputs)


def draw_permutation_partners(count: int) -> np.ndarray:
    """Returns a random but fixed partner, another example, for each of `count` examples."""
    order = np.random.default_rng(0).permutation(count)
    partners = np.empty(count, int)
    # One cycle through all examples, so that no example is its own partner.
    partners[order] = np.roll(order, 1)
    return partners


def _run_model(model, inputs, needs_features, batch_size):
    """Returns the features, or `None`, and the logits `(n, num_classes)`, in float64."""
    network, features = check_network("model", getattr(model, "classifier", model)), None
    if needs_features:
        if not isinstance(model, AdversarialModel):
            raise TypeError(
                "Expected a model of `dann.adaptation`, because the scores read features. "
                f"Received: {type(model).__name__}"
            )
        features = check_finite_outputs("features", predict(model.backbone, inputs, batch_size))
        if features.ndim == 2:  # the backbone need not run again
            network, inputs = model.label_head, features.astype("float32")
    _check_one_label_per_example(model, network)
    logits = _to_logits(predict(network, inputs, batch_size).astype("float64"))
    loss = getattr(model, "loss", None)
    name = loss if isinstance(loss, str) else getattr(loss, "name", None)
    if logits.shape[1] > 1 and name in _REGRESSION_LOSSES:
        raise ValueError(
            "Expected logits of classes, or numbers of one output. "
            f"Received: loss={name!r} and {logits.shape[1]} outputs"
        )
    return features, logits


def _check_one_label_per_example(model, network):
    last_layer = getattr(network, "layers", [network])[-1]
    is_multi_label = isinstance(getattr(model, "loss", None), MULTI_LABEL_LOSSES)
    is_multi_label = is_multi_label or getattr(model, "is_multi_label", False)
    if is_multi_label or getattr(last_layer, "activation", None) is keras.activations.sigmoid:
        raise ValueError(
            "Expected logits of classes, one class per example. Received: several labels per "
            "example, or outputs of a sigmoid. For two classes write `num_classes=2`."
        )


def _to_logits(values):
    if values.ndim != 2:
        raise ValueError(
            "Expected logits `(batch, num_classes)` or numbers `(batch, 1)`. Received: outputs of "
            f"shape {('batch', *values.shape[1:])}. Pool maps."
        )
    check_finite_outputs("logits", values)
    sums_to_one = values.shape[1] > 1 and (np.abs(values.sum(axis=1) - 1) < 1e-3).all()
    if sums_to_one and values.min() >= 0:
        return np.log(np.maximum(values, np.finfo("float32").tiny))  # a probability may be 0
    return values
