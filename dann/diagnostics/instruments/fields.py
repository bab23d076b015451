"""The vector field along which a training step moves the weights, and how far it moves them."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from dann.adaptation import DANN, AdversarialModel
from dann.autodiff import gradients
from dann.diagnostics.instruments.losses import (
    at_weights,
    check_adversarial,
    task_loss,
    weights_of_task,
)
from dann.diagnostics.instruments.modes import as_tensors
from dann.optimizers import PerVariable


def has_explicit_field(model: AdversarialModel) -> bool:
    """Returns whether it is a `DANN`, whose losses hold nothing constant but what it reverses.

    A class that derives from it may change the losses, so the field of its steps is measured.
    """
    return type(model) is DANN


def players(model: AdversarialModel) -> list[keras.Variable]:
    """Returns the weights of both players: backbone, label head and then the adversary.

    Raises:
        TypeError: If it is not a model of `dann.adaptation`, or has no reversal.
        ValueError: If a step does not move all of them along one field at the weights themselves:
            with `task_radius` above 0 or several critic steps.
    """
    check_adversarial(model, compiled=False)
    if model.reversal is None:
        raise TypeError(
            "A game has two players, and one of them is trained through the reversal. Received: "
            f"{type(model).__name__}, which has none"
        )
    if model.task_radius:
        raise ValueError(
            "The vector field is that of the gradient at the weights themselves; smooth training "
            "(SDAT) takes it at others. "
            f"Received: a model with task_radius={model.task_radius}"
        )
    if model.critic_steps > 1:
        raise ValueError(
            "The vector field is that of players who all move at every step; here the critic moves "
            f"more often. Received: a {type(model).__name__} with critic_steps="
            f"{model.critic_steps}"
        )
    if has_explicit_field(model):
        return [*weights_of_task(model), *model.domain_head.trainable_variables]
    return list(model.trainable_variables)


def explicit_field(
    model: AdversarialModel,
    data: Any,
    training: bool = True,
    factors: Sequence[float] | None = None,
) -> Callable[..., list]:
    """Returns the field that a `DANN` descends, as a function of the weights of `players`.

    It differentiates the losses without the reversal and puts the signs in by hand, because then
    the field can be differentiated again.

    Args:
        model: A model that `has_explicit_field`.
        factors: Factor of the field of each weight. Defaults to `None`: 1.

    The other arguments are those of a diagnostic, the errors those of `players`.

    Returns:
        A function of as many tensors as there are weights that returns the field in their shapes.
    """
    variables = players(model)
    (x, y), factors = as_tensors(data), factors or [1.0] * len(variables)
    reversal: Any = model.reversal
    # The layer holds the strength of the last step; a step begins with the next one.
    next_strength = reversal.schedule(reversal.step.value) if reversal.schedule else None
    strength = reversal.strength if next_strength is None else next_strength
    strength = float(np.asarray(keras.ops.convert_to_numpy(strength)))
    of_task = len(weights_of_task(model))

    def both():
        features = model.extract(x, training)
        batch = model.batch_of(x, features, training)
        task = task_loss(model, batch, x, y, training)
        domain = model.method_losses(batch, y, _unreversed, training)["domain/loss"]
        return task, domain + sum(model.domain_head.losses)

    losses = at_weights(model, variables, both)

    def field(*values):
        mine, theirs = values[:of_task], values[of_task:]

        def task_less_domain(*mine):
            task, domain = losses(*mine, *theirs)
            return task - strength * domain

        slopes = gradients(task_less_domain, mine)
        slopes += gradients(lambda *theirs: losses(*mine, *theirs)[1], theirs)
        return [factor * slope for factor, slope in zip(factors, slopes, strict=True)]

    return field


def _unreversed(features, training):
    return features


def step_field(
    model: AdversarialModel,
    data: Any,
    training: bool = True,
    factors: Sequence[float] | None = None,
) -> Callable[..., list]:
    """Returns the field that any model of `dann.adaptation` descends: the gradient in `fit`.

    It goes through the reversal, and a method holds some tensors constant, such as `CDAN` its
    predictions. So its values are those of the training, but its derivative is not: do not
    differentiate it again.

    Arguments, result and errors are those of `explicit_field`; the model must be compiled.
    """
    variables = players(check_adversarial(model))
    (x, y), factors = as_tensors(data), factors or [1.0] * len(variables)

    def loss():
        return model.compute_loss(x, y, model(x, training=training), training=training)

    total = at_weights(model, variables, loss)

    def field(*values):
        slopes = gradients(total, values)
        return [factor * slope for factor, slope in zip(factors, slopes, strict=True)]

    return field


class Descent(NamedTuple):
    """Gradient descent with momentum.

    Attributes:
        step: The first variable's current learning rate.
        factors: Each variable's learning rate divided by it.
        momentum: In [0, 1).
        nesterov: Whether the momentum is Nesterov's.
    """

    step: float
    factors: list[float]
    momentum: float
    nesterov: bool


def descent_of(model: AdversarialModel, variables: Sequence[keras.Variable]) -> Descent | None:
    """Returns how the model's optimizer moves variables, or `None` if it is not `SGD`."""
    optimizer = getattr(model, "optimizer", None)
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # under a loss scale
    parts = _parts(model, optimizer, variables)
    if not all(isinstance(part, keras.optimizers.SGD) for part in parts):
        return None
    settings = {(part.momentum, part.nesterov) for part in parts}
    rates = [float(np.asarray(keras.ops.convert_to_numpy(part.learning_rate))) for part in parts]
    if len(settings) > 1 or rates[0] <= 0:
        return None
    return Descent(rates[0], [rate / rates[0] for rate in rates], *settings.pop())


def _parts(model, optimizer: Any, variables):
    if not isinstance(optimizer, PerVariable) or optimizer.places is None:
        return [optimizer] * len(variables)
    places = zip(model.trainable_variables, optimizer.places, strict=True)
    place_of = {id(variable): place for variable, place in places}
    return [optimizer.optimizers[place_of[id(variable)]] for variable in variables]
