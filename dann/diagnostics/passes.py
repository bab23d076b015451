"""Runs a model for a diagnostic: in a mode, up to its losses, with results as arrays."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from dann.adaptation import AdversarialModel
from dann.adaptation.batch import is_pair, sum_losses
from dann.adaptation.preserve_state import preserve_state
from dann.checks import check_choice
from dann.data.pairs import Pairs

PAIR_SAMPLES = 256  # examples of each domain that are taken from pairs
DOMAINS: tuple[str, ...] = ("source", "target")
_EPSILON = {"float64": 2**-52, "float32": 2**-23, "float16": 2**-10, "bfloat16": 2**-7}


def check_method(model: Any, compiled: bool = True, flat: bool = False) -> AdversarialModel:
    """Returns the model if it is a model of `dann.adaptation`.

    Args:
        model: The model.
        compiled: Whether the model must be compiled. Defaults to `True`.
        flat: Whether the features must be vectors. Defaults to `False`.

    Raises:
        TypeError: If it is another model.
        ValueError: If it is not compiled, or its features are maps.
    """
    if not isinstance(model, AdversarialModel):
        raise TypeError(f"Expected a model of `dann.adaptation`. Received: {type(model).__name__}")
    if compiled and not model.compiled:
        raise ValueError("Expected a compiled model. Received: no loss. Call `compile` first.")
    if flat and len(model.feature_shape) > 2:
        shape = model.feature_shape
        raise ValueError(f"Expected features `(batch, num_features)`. Received: shape {shape}")
    return model


def modes() -> tuple[str, ...]:
    """Returns the modes of the running backend."""
    return ("eager",) if keras.backend.backend() == "torch" else ("eager", "graph", "xla")


def fit_mode(model: Any = None) -> str:
    """Returns the mode in which `fit` runs a compiled model: `"eager"`, `"graph"` or `"xla"`.

    Without a model it is `"graph"`. On torch it is always `"eager"`.
    """
    if keras.backend.backend() == "torch" or getattr(model, "run_eagerly", False):
        return "eager"
    return "xla" if getattr(model, "compiled", False) and model.jit_compile else "graph"


def in_mode(function: Callable, mode: str) -> Callable:
    """Returns a function of tensors that runs in a mode; on JAX graph and XLA are the same."""
    check_choice("mode", mode, modes())
    if mode == "eager":
        return function
    if keras.backend.backend() == "jax":
        import jax  # pyright: ignore[reportMissingImports]

        return jax.jit(function)
    import tensorflow as tf

    compiled = tf.function(function, jit_compile=mode == "xla", autograph=False)
    # A direct call of `compiled` warns about functions that are traced once each.
    return lambda *inputs: compiled.get_concrete_function(*inputs)(*inputs)


class Losses(NamedTuple):
    """The losses of a step, scalars.

    Attributes:
        label: The label loss, with the losses that layers add.
        task: The label loss with the losses of the regularizers.
        adversarial: The sum of all losses that pass the reversal.
    """

    label: Any
    task: Any
    adversarial: Any


def trains_backbone(model: AdversarialModel) -> bool:
    """Returns whether to run a model as in training to give its backbone gradients.

    A model that trains its critic more often than its backbone (`WDGRL`) gives the backbone none on
    most training steps, but always some outside training.
    """
    return getattr(model, "critic_steps", 1) == 1


def extract_features(model: AdversarialModel, x: dict, training: bool) -> dict[str, Any]:
    """Returns the features of each domain of a pair, augmented in training."""
    return model.extract_features(model.augment(x, training), training)


def step_losses(
    model: AdversarialModel,
    data: tuple,
    features: dict,
    training: bool,
    reversal: Callable[..., Any] | None = None,
) -> Losses:
    """Returns the losses of a compiled model on a batch with its features.

    Args:
        model: The model.
        data: One batch of tensors, `({"source": xs, "target": xt}, ys)`.
        features: What `extract_features` returns for the batch.
        training: Whether the model runs as in training.
        reversal: Function `(inputs, training)` that replaces the reversal of the model. Defaults
            to `None`: the reversal of the model.
    """
    x, y = data
    batch = model.make_batch(x, features, training)._replace(raw_inputs=x, labels=y)
    layer_losses = list(model.losses)  # before the method calls its own networks
    terms = model.loss_terms(batch, reversal, training)
    label = sum_losses(layer_losses, terms["label/loss"])
    regularizers = [
        regularizer.weight * terms[f"{regularizer.name}/loss"] for regularizer in model.regularizers
    ]
    names = [name for name in model.terms if name.endswith("/loss") and "label" not in name]
    adversarial_losses = [terms[name] for name in names]
    return Losses(
        label, sum_losses(regularizers, label), sum_losses(adversarial_losses, ops.zeros(()))
    )


def at_weights(
    model: keras.Model, variables: Sequence[keras.Variable], function: Callable[[], Any]
) -> Callable[..., Any]:
    """Returns `function` as a function of the values of `variables`, in their order.

    The state of the model does not change. Random layers draw the same numbers at every call.
    """

    def evaluate(*values):
        with preserve_state(model, list(zip(variables, values, strict=True))):
            return function()

    return evaluate


def losses_at(
    model: AdversarialModel, variables: Sequence[keras.Variable], data: Any
) -> Callable[..., Losses]:
    """Returns the losses of a step on a batch as a function of the values of `variables`."""
    data, training = as_tensors(as_batch(model, data)), trains_backbone(model)
    return at_weights(
        model,
        variables,
        lambda: step_losses(model, data, extract_features(model, data[0], training), training),
    )


def as_batch(model: Any, data: Any) -> Any:
    """Returns data as one batch of arrays: `(inputs, labels)`, or the inputs alone.

    Args:
        model: The model that takes the batch.
        data: A batch `({"source": xs, "target": xt}, ys)`; or pairs of `dann.data.pair`, whose
            first 256 examples of each domain are used. Sample weights are ignored. For a model that
            is not from `dann.adaptation` its inputs, with or without labels.

    Raises:
        ValueError: If `data` has no pair of domains with source labels, or no examples.
    """
    is_method = isinstance(model, AdversarialModel)
    if is_method:
        model.check_columns(data)
    if isinstance(data, Pairs):
        data = data.take(PAIR_SAMPLES)
    if is_method:
        if not isinstance(data, tuple | list) or len(data) not in (2, 3) or not is_pair(data[0]):
            raise ValueError(
                "Expected both domains, `({'source': inputs, 'target': inputs}, labels)`, or the "
                f"pairs that `dann.data.pair` returns. Received: {type(data).__name__}"
            )
        arrays = keras.tree.map_structure(ops.convert_to_numpy, tuple(data[:2]))
        data = arrays[0], np.asarray(arrays[1])
    if any(tuple(np.shape(array))[:1] == (0,) for array in keras.tree.flatten(data)):
        raise ValueError("Expected `data` with at least one example. Received: none")
    return data[:2] if isinstance(data, tuple) else data


def as_tensors(data: Any) -> Any:
    """Returns the arrays of a batch as tensors, in the same structure."""
    return keras.tree.map_structure(ops.convert_to_tensor, data)


def to_float64(tensor: Any) -> np.ndarray:
    """Returns a tensor as an array in double precision."""
    return np.asarray(ops.convert_to_numpy(ops.cast(tensor, "float32")), "float64")


def as_vector(tensors: Iterable[Any]) -> np.ndarray:
    """Returns all numbers of tensors, such as the gradients of several weights, as one vector."""
    return np.concatenate([np.zeros(0), *(to_float64(tensor).ravel() for tensor in tensors)])


def is_floating(tensor: Any) -> bool:
    """Returns whether a value is one tensor of a floating-point type."""
    return ops.is_tensor(tensor) and "float" in keras.backend.standardize_dtype(tensor.dtype)


def values_match(outputs: Any, inputs: Any) -> bool:
    """Returns whether outputs equal the inputs, tensors in any structure, up to rounding."""

    def match(output, tensor):
        values = to_float64(tensor)
        size = np.max(np.abs(values), initial=0.0, where=np.isfinite(values))
        # Two roundings, each of up to one epsilon, and a factor 2 of safety.
        tolerance = 4 * _EPSILON[keras.backend.standardize_dtype(tensor.dtype)]
        return np.allclose(values, to_float64(output), tolerance, tolerance * size, equal_nan=True)

    return all(map(match, keras.tree.flatten(outputs), keras.tree.flatten(inputs)))


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Returns the cosine of two vectors: 0 if one is all zeros, and NaN if one is not finite."""
    size = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b / size) if size != 0 else 0.0


def length_ratio(a: np.ndarray, b: np.ndarray) -> float:
    """Returns `||a|| / ||b||`: 0 if `b` is all zeros, and NaN if one is not finite."""
    size = np.linalg.norm(b)
    return float(np.linalg.norm(a) / size) if size != 0 else 0.0
