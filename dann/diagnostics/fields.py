"""The vector field along which a training step moves the weights, and how far it moves them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np

from dann.adaptation import AdversarialModel
from dann.adaptation.batch import sum_losses
from dann.autodiff import gradients
from dann.diagnostics.passes import adversarial, as_tensors, at_weights, features_of, losses_of
from dann.optimizers import PerVariable


def players(model: Any) -> list[keras.Variable]:
    """Returns the weights of both players of a compiled model, the adversary's last.

    Raises:
        TypeError: If it is not a model of `dann.adaptation`.
        ValueError: If it is not compiled, or a step does not move two players along one field at
            the weights themselves: without a reversal, with `task_radius` above 0, or with several
            critic steps.
    """
    model = adversarial(model)
    if model.reversal is None or model.task_radius or model.critic_steps > 1:
        raise ValueError(
            "A game has two players that move at every step by the gradient at their weights: it "
            "needs a reversal, `task_radius=0` and one critic step. Received: "
            f"{type(model).__name__} with task_radius={model.task_radius}, "
            f"critic_steps={model.critic_steps}"
        )
    return list(model.trainable_variables)


def explicit_field(model: AdversarialModel, data: Any) -> Callable[..., list]:
    """Returns the field that a `DANN` descends, as a function of the weights of `players`.

    It differentiates the losses without the reversal and puts the signs in by hand, because then
    the field can be differentiated again.

    Args:
        model: A `DANN` itself. A class that derives from it may change the losses, and other
            methods hold tensors constant beside what they reverse.

    The other arguments are those of a diagnostic, the errors those of `players`.

    Returns:
        A function of as many tensors as there are weights that returns the field in their shapes.
    """
    variables, data = players(model), as_tensors(data)
    reversal: Any = model.reversal
    # The layer holds the strength of the last step; a step begins with the next one.
    strength = reversal.schedule(reversal.step.value) if reversal.schedule else reversal.strength
    strength = float(np.asarray(keras.ops.convert_to_numpy(strength)))
    of_task = len(variables) - len(model.domain_head.trainable_variables)

    def both():
        features = features_of(model, data[0], True)
        found = losses_of(model, data, features, True, lambda features, training: features)
        return found.task, sum_losses(model.domain_head.losses, found.adversarial)

    losses = at_weights(model, variables, both)

    def field(*values):
        mine, theirs = values[:of_task], values[of_task:]

        def task_less_domain(*mine):
            task, domain = losses(*mine, *theirs)
            return task - strength * domain

        slopes = gradients(task_less_domain, mine)
        return [*slopes, *gradients(lambda *theirs: losses(*mine, *theirs)[1], theirs)]

    return field


def step_field(model: AdversarialModel, data: Any) -> Callable[..., list]:
    """Returns the field that any model of `dann.adaptation` descends: the gradient in `fit`.

    It goes through the reversal, and a method holds some tensors constant, such as `CDAN` its
    predictions. So its values are those of the training, but its derivative is not: do not
    differentiate it again.

    Arguments, result and errors are those of `explicit_field`.
    """
    variables, (x, y) = players(model), as_tensors(data)

    def loss():
        return model.compute_loss(x, y, model(x, training=True), training=True)

    total = at_weights(model, variables, loss)
    return lambda *values: gradients(total, values)


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


def descent_of(model: AdversarialModel) -> Descent | None:
    """Returns how the model's optimizer moves its variables, or `None` if it is not `SGD`."""
    optimizer = model.optimizer
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # under a loss scale
    parts: list[Any] = [optimizer] * len(model.trainable_variables)
    if isinstance(optimizer, PerVariable) and optimizer.optimizer_indices is not None:
        parts = [optimizer.optimizers[index] for index in optimizer.optimizer_indices]
    if not all(isinstance(part, keras.optimizers.SGD) for part in parts):
        return None
    settings = {(part.momentum, part.nesterov) for part in parts}
    rates = [float(np.asarray(keras.ops.convert_to_numpy(part.learning_rate))) for part in parts]
    if len(settings) > 1 or rates[0] <= 0:
        return None
    return Descent(rates[0], [rate / rates[0] for rate in rates], *settings.pop())
