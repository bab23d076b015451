"""Logits and features of a model, in double precision, and the checks of a score's arguments."""

import functools
import operator
from typing import Any

import keras
import numpy as np
from scipy import special

from dann.adaptation import AdversarialModel
from dann.adaptation.plain_network import input_specs, last_activation, pooling
from dann.adaptation.replicas import replicas_of
from dann.checks import check_class_range, check_integer
from dann.data.domain_inputs import nested
from dann.data.examples import strings_as_tensors
from dann.data.whole_domain import all_inputs, all_labelled

_TARGET = (
    "Argument `target` must hold inputs as the model takes them, such as one array or a dataset, "
    "because a score sees no labels of the target. "
)


class NotFiniteError(ValueError):
    """The outputs of a model are NaN or infinite."""


class RememberingModel:
    """A model that computes its logits and its features of an array once.

    Every score takes it as the model. Make a new one after the weights have changed.

    Args:
        model: The model.
        of_features: Whether a score will ask for features, too. The label head then gets those in
            memory, so that the backbone runs once. Defaults to `False`.
    """

    def __init__(self, model: Any, of_features: bool = False):
        self.model = model
        self._shares_features = of_features and isinstance(model, AdversarialModel)
        self._known = {}

    def logits(self, inputs: Any, batch_size: int) -> np.ndarray:
        """Returns the outputs of the model, float64 `(n, ...)`."""
        return self._recall(self._logits, inputs, batch_size)

    def features(self, inputs: Any, batch_size: int) -> np.ndarray:
        """Returns the outputs of the backbone, `(n, ...)`, in its own data type."""
        return self._recall(self._features, inputs, batch_size)

    def _logits(self, inputs, batch_size):
        network = _network_of(self)
        if self._shares_features and len(self.model.feature_shape) == 2:
            network, inputs = self.model.label_head, self.features(inputs, batch_size)
        return _in_batches(network, inputs, batch_size).astype("float64")

    def _features(self, inputs, batch_size):
        return _in_batches(self.model.backbone, inputs, batch_size)

    def _recall(self, compute, inputs, batch_size):
        leaves = keras.tree.flatten(inputs)
        key = compute, *map(id, leaves)
        if key not in self._known:
            # The inputs are kept too, because no other array may get their identity.
            self._known[key] = leaves, compute(inputs, batch_size)
        return self._known[key][1]


def remembering(model: Any) -> RememberingModel:
    """Returns a model that remembers: the model itself, if it does."""
    return model if isinstance(model, RememberingModel) else RememberingModel(model)


def logits(model: keras.Model | RememberingModel, inputs: Any, batch_size: int) -> np.ndarray:
    """Returns the logits of inputs `(n, ...)`, float64 `(n, num_classes)`.

    It runs `batch_size` inputs at a time. If every row of outputs is in [0, 1] with a sum of 1, the
    model is taken to end in a softmax, and the logarithms of its outputs are returned.

    Raises:
        NotFiniteError: If a logit is not finite.
        ValueError: If the model does not give one logit for each of at least 2 classes.
    """
    values = finite("logits", remembering(model).logits(inputs, batch_size))
    if values.ndim > 2:
        raise ValueError(
            "A score needs one prediction for each example; if a model predicts maps, pool them, "
            f"as in `keras.Sequential([model.classifier, keras.layers.{pooling(values.shape)}])`. "
            f"Received: outputs of shape {('batch', *values.shape[1:])}"
        )
    if values.ndim != 2 or values.shape[1] < 2:
        raise ValueError(
            "The model must give logits `(batch, num_classes)` of at least 2 classes. "
            f"Received: outputs of shape {('batch', *values.shape[1:])}"
        )
    if last_activation(_network_of(model)) is keras.activations.sigmoid:
        raise ValueError(
            "The model must give logits of classes of which each example has one; leave out the "
            "last activation. Received: outputs of a sigmoid"
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
    now = remembering(model)
    if not isinstance(now.model, AdversarialModel):
        raise TypeError(
            "This score needs the features of a `dann.adaptation.AdversarialModel`, which has a "
            f"`backbone`. Received: {type(now.model).__name__}"
        )
    return finite("features", now.features(inputs, batch_size)).astype("float64")


def check_target(model: Any, target: Any, least: int = 1) -> Any:
    """Returns the target's inputs in the form that the model takes; checks their number.

    Args:
        model: The model, or `None` if it is not known yet.
        target: What `dann.data.pair` takes for a target, but no `(inputs, labels)`.
        least: The fewest examples.
    """
    specs = None if model is None else input_specs(_network_of(model))
    if isinstance(specs, tuple | list) and len(specs) == 1:
        specs = specs[0]
    labelled = isinstance(target, tuple) and specs is None
    if labelled or not _is_domain(target):
        raise TypeError(_TARGET + f"Received: {type(target).__name__}")
    if isinstance(target, tuple | list | dict) and specs is not None:
        _check_structure(specs, target)
    if _is_empty(target):
        _check_size("target", target, least)
    inputs = all_inputs(target, specs)
    _check_size("target", inputs, least)
    return inputs


def check_source(source: Any, least: int = 1) -> tuple[Any, np.ndarray]:
    """Returns inputs `(n, ...)` and labels `(n,)` of the held-out source, at least `least`.

    Args:
        source: What `dann.data.pair` takes for a source; weights are left out.
        least: The fewest examples.
    """
    if isinstance(source, tuple | list) and len(source) > 1 and _is_empty(source[0]):
        _check_size("source", source[0], least)
    inputs, labels = all_labelled(source)
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


def is_dataset(values: Any) -> bool:
    """Returns whether examples are given as a dataset or iterator, not as arrays."""
    arrays = any(hasattr(values, name) for name in ("shape", "to_numpy"))
    return not (arrays or values is None or isinstance(values, dict | list | tuple | str | bytes))


def _is_domain(values):
    """Whether a value may hold examples, unlike a number, a string or `None`."""
    several = values.values() if isinstance(values, dict) else values
    if isinstance(values, dict | list | tuple):
        return len(several) > 0
    if hasattr(values, "shape"):
        return len(values.shape) > 0
    iterable = hasattr(values, "__iter__") or hasattr(values, "__getitem__") or callable(values)
    return iterable and not isinstance(values, str | bytes)


def _is_empty(values):
    first = next(iter(keras.tree.flatten(values)), None)
    return first is not None and len(getattr(first, "shape", ())) > 0 and first.shape[0] == 0


def _check_size(domain, inputs, least):
    count = count_of(inputs)
    if count < least:
        raise ValueError(
            f"The {domain} must hold at least {least} example{'s' if least > 1 else ''}. "
            f"Received: {count}"
        )


def _network_of(model):
    """The network that gives the logits."""
    network = model.model if isinstance(model, RememberingModel) else model
    return network.classifier if isinstance(network, AdversarialModel) else network


def _check_structure(specs, target):
    """Refuses anything but inputs of the model's structure, such as inputs and labels."""
    given = nested(target, "target")
    names = [sorted(one) if isinstance(one, dict) else None for one in (specs, given)]
    several = [isinstance(one, dict | list | tuple) for one in (specs, given)]
    if several[0] != several[1] or names[0] != names[1] or several[0] and len(specs) != len(given):
        wanted = names[0] or (f"{len(specs)} inputs" if several[0] else "one array")
        found = f"a dict with {names[1]}" if names[1] else f"a {type(target).__name__}"
        raise TypeError(_TARGET + f"Expected {wanted}. Received: {found}")


def _in_batches(network, inputs, batch_size):
    """The outputs of a network for all inputs, in its own data type."""
    check_integer("batch_size", batch_size, 1)
    parts, inputs, count = [], indexable(inputs), count_of(inputs)
    run = _compiled(network)
    for start in range(0, count, batch_size):
        # An array-like of files need not take slices.
        rows = np.arange(start, min(start + batch_size, count))
        batch = keras.tree.map_structure(operator.itemgetter(rows), inputs)
        parts.append(keras.ops.convert_to_numpy(run(strings_as_tensors(batch))))
    return np.concatenate(parts)


def _compiled(network):
    """A network in inference mode, compiled where that is Keras's own and leaves its weights alone.

    On JAX, Keras's compiled prediction takes the weights' memory and gives them other; on torch,
    and for several replicas of TensorFlow's, nothing is gained.
    """
    on_tensorflow = keras.backend.backend() == "tensorflow" and replicas_of(network) == 1
    own = type(network).predict_step if isinstance(network, keras.Model) else None
    if on_tensorflow and own is keras.Model.predict_step and not network.run_eagerly:
        return network.predict_on_batch
    return functools.partial(network, training=False)


def finite(what, values):
    """Returns the values; raises `NotFiniteError` if some of them are not finite."""
    broken = int((~np.isfinite(values).reshape(len(values), -1).all(axis=1)).sum())
    if broken:
        raise NotFiniteError(
            f"The {what} must be finite numbers; has the training diverged? "
            f"Received: others for {broken} of {len(values)} inputs"
        )
    return values
