"""How a diagnostic runs a model: in which mode, which losses, and as which arrays."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from dann.adaptation import AdversarialModel
from dann.adaptation.batch import sum_losses
from dann.adaptation.preserve_state import preserve_state
from dann.checks import check_choice

DOMAINS: tuple[str, ...] = ("source", "target")
MODES = ("eager", "graph", "xla")


def adversarial(model: Any, compiled: bool = True, flat: bool = False) -> AdversarialModel:
    """Returns the model if it is one of `dann.adaptation`.

    Args:
        model: The model.
        compiled: Whether it must be compiled. Defaults to `True`.
        flat: Whether its features must be vectors. Defaults to `False`.

    Raises:
        TypeError: If it is another model.
        ValueError: If it is not compiled, or its features are maps.
    """
    if not isinstance(model, AdversarialModel):
        raise TypeError(
            "This diagnostic needs the parts of a `dann.adaptation.AdversarialModel`: a backbone, "
            f"a label head, an adversary. Received: {type(model).__name__}"
        )
    if compiled and not model.compiled:
        raise ValueError("Compile the model first, to give it a loss. Received: no loss")
    if flat and len(model.feature_shape) > 2:
        raise ValueError(
            "This diagnostic compares examples by flat features `(batch, num_features)`. "
            f"Received: features of shape {model.feature_shape}"
        )
    return model


# Modes.


def mode_of(model: Any = None) -> str:
    """Returns how `fit` runs the model as it is compiled: `"eager"`, `"graph"` or `"xla"`.

    Without a model it is `"graph"`. On torch it is always `"eager"`.
    """
    if keras.backend.backend() == "torch" or getattr(model, "run_eagerly", False):
        return "eager"
    xla = getattr(model, "compiled", False) and model.jit_compile
    return "xla" if xla else "graph"


def in_mode(function: Callable, mode: str) -> Callable:
    """Returns a function of tensors as it runs in a mode; on JAX graph and XLA are the same."""
    check_choice("mode", mode, modes_here())
    if mode == "eager":
        return function
    if keras.backend.backend() == "jax":
        import jax  # pyright: ignore[reportMissingImports]

        return jax.jit(function)
    import tensorflow as tf

    compiled = tf.function(function, jit_compile=mode == "xla", autograph=False)
    # Called directly, TensorFlow would warn of functions that are traced once each.
    return lambda *inputs: compiled.get_concrete_function(*inputs)(*inputs)


def modes_here() -> tuple[str, ...]:
    """Returns the modes that the running backend has."""
    return MODES[:1] if keras.backend.backend() == "torch" else MODES


# Losses of a pair `data`, inputs `x` with labels `y`.


class Losses(NamedTuple):
    """The losses of a step, scalars.

    Attributes:
        label: The label loss, with what layers have added.
        task: The same with the losses of the regularizers.
        adversarial: All that goes through the reversal.
    """

    label: Any
    task: Any
    adversarial: Any


def trains_backbone(model: AdversarialModel) -> bool:
    """Returns whether to run a model as in training to give its backbone gradients.

    A model that trains its critic more often than its backbone (`WDGRL`) gives the backbone none on
    most training steps, but always some outside training.
    """
    return model.critic_steps == 1


def features_of(model: AdversarialModel, x: dict, training: bool) -> dict[str, Any]:
    """Returns the features of each part of a pair, augmented in training."""
    return model.extract_features(model.augment(x, training), training)


def losses_of(
    model: AdversarialModel,
    data: tuple,
    features: dict,
    training: bool,
    reversal: Callable[..., Any] | None = None,
) -> Losses:
    """Returns the losses of a compiled model; `reversal` runs in place of its own."""
    x, y = data
    batch = model.make_batch(x, features, training)
    of_layers = list(model.losses)  # now, because the method runs its own networks
    terms = model.loss_terms(x, y, batch, reversal, training)
    label = sum_losses(of_layers, terms["label/loss"])
    regularizers = [one.weight * terms[f"{one.name}/loss"] for one in model.regularizers]
    names = [name for name in model.terms if name.endswith("/loss") and "label" not in name]
    of_adversary = [terms[name] for name in names]
    return Losses(label, sum_losses(regularizers, label), sum_losses(of_adversary, ops.zeros(())))


def at_weights(
    model: keras.Model, variables: Sequence[keras.Variable], function: Callable[[], Any]
) -> Callable[..., Any]:
    """Returns what `function` gives as a function of the values of `variables`, in order.

    The model's state stays as it is. Random layers draw the same numbers at every call, so it is
    one function.
    """

    def of_values(*values):
        with preserve_state(model, list(zip(variables, values, strict=True))):
            return function()

    return of_values


def losses_at(
    model: AdversarialModel, variables: Sequence[keras.Variable], data: Any
) -> Callable[..., Losses]:
    """Returns the losses of a step on a pair as a function of the values of `variables`."""
    data, training = as_tensors(data), trains_backbone(model)
    return at_weights(
        model,
        variables,
        lambda: losses_of(model, data, features_of(model, data[0], training), training),
    )


def part_between(inputs: Any, outputs: Any) -> keras.Function | None:
    """Returns the layers from one tensor of a network to another; `None` if they need others.

    A `keras.Model` would add nodes to the user's layers.
    """
    try:
        return keras.Function(inputs, outputs)
    except ValueError:
        return None


# Arrays.


def as_tensors(data: Any) -> Any:
    """Returns the arrays of a batch as tensors, in the structure that they came in."""
    return keras.tree.map_structure(ops.convert_to_tensor, data)


def to_numpy(tensor: Any) -> np.ndarray:
    """Returns a tensor as an array in double precision."""
    return np.asarray(ops.convert_to_numpy(ops.cast(tensor, "float32")), "float64")


def as_vector(tensors: Sequence[Any]) -> np.ndarray:
    """Returns all numbers of tensors, such as the gradients of several weights, as one vector."""
    return np.concatenate([np.zeros(0), *(to_numpy(tensor).ravel() for tensor in tensors)])


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Returns the cosine of two vectors: 0 if one is all zeros, and NaN if one is not finite."""
    size = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b / size) if size != 0 else 0.0


def length_ratio(a: np.ndarray, b: np.ndarray) -> float:
    """Returns `||a|| / ||b||`: 0 if `b` is all zeros, and NaN if one is not finite."""
    size = np.linalg.norm(b)
    return float(np.linalg.norm(a) / size) if size != 0 else 0.0
