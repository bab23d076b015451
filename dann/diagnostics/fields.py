"""The vector field along which a training step moves the weights, and the size of the step."""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras

from dann.adaptation import AdversarialModel
from dann.adaptation.batch import sum_losses
from dann.autodiff import gradients
from dann.diagnostics.passes import (
    as_tensors,
    at_weights,
    check_method,
    extract_features,
    step_losses,
    to_float64,
)
from dann.optimizers import PerVariable


def get_players(model: Any) -> list[keras.Variable]:
    """Returns the weights of both players of a compiled model; discriminator weights come last.

    Raises:
        TypeError: If it is not a model of `dann.adaptation`.
        ValueError: If it is not compiled, or a step does not move both players along one field at
            the current weights: without a reversal, with `task_radius` above 0, or with several
            critic steps.
    """
    model = check_method(model)
    critic_steps = getattr(model, "critic_steps", 1)
    if model.reversal is None or model.task_radius or critic_steps > 1:
        raise ValueError(
            "Expected a reversal, `task_radius=0` and one critic step. Received: "
            f"{type(model).__name__} with task_radius={model.task_radius}, {critic_steps=}"
        )
    return list(model.trainable_variables)


def explicit_field(model: AdversarialModel, data: Any) -> Callable[..., list]:
    """Returns the field that a `DANN` descends, as a function of its weights.

    The losses are differentiated without the reversal, with the signs of the two players written
    out, so the field can be differentiated again:

    - `(d(L - s D)/df, d(L - s D)/dc, dD/dd)`, with the names of `minmax_spectrum`

    Args:
        model: A `DANN` itself, because a class that derives from it may change the losses.
        data: One batch, as in every diagnostic.

    Returns:
        A function of one tensor per weight that returns the field in the same shapes.
    """
    variables, data = get_players(model), as_tensors(data)
    reversal: Any = model.reversal
    # The layer stores the strength of the last step, but the next step begins with a new one.
    strength = reversal.schedule(reversal.step.value) if reversal.schedule else reversal.strength
    strength = float(to_float64(strength))
    num_task = len(variables) - len(model.domain_head.trainable_variables)

    def compute_losses():
        features = extract_features(model, data[0], True)
        losses = step_losses(model, data, features, True, lambda inputs, training: inputs)
        return losses.task, sum_losses(model.domain_head.losses, losses.adversarial)

    losses = at_weights(model, variables, compute_losses)

    def field(*values):
        task_values, domain_values = values[:num_task], values[num_task:]

        def task_minus_domain(*task_values):
            task, domain = losses(*task_values, *domain_values)
            return task - strength * domain

        # The backbone descends L - s D, and the discriminator descends D.
        task_gradients = gradients(task_minus_domain, task_values)
        domain_gradients = gradients(lambda *d: losses(*task_values, *d)[1], domain_values)
        return task_gradients + domain_gradients

    return field


def step_field(model: AdversarialModel, data: Any) -> Callable[..., list]:
    """Returns the field that any model descends in `fit`, as a function of its weights.

    The gradient passes the reversal, and some methods hold tensors constant, such as `CDAN` its
    predictions. The values of the field are the steps of training, but automatic
    differentiation of the field does not return its derivative.

    Args:
        model: Model for which `get_players` returns weights.
        data: One batch, as in every diagnostic.

    Returns:
        A function of one tensor per weight that returns the field in the same shapes.
    """
    variables, (x, y) = get_players(model), as_tensors(data)

    def loss():
        return model.compute_loss(x, y, model(x, training=True), training=True)

    total = at_weights(model, variables, loss)
    return lambda *values: gradients(total, values)


class Descent(NamedTuple):
    """Gradient descent with momentum.

    Attributes:
        step: Learning rate of the first variable.
        factors: Learning rate of each variable divided by `step`.
        momentum: In [0, 1).
        nesterov: Whether the momentum is Nesterov's.
    """

    step: float
    factors: list[float]
    momentum: float
    nesterov: bool


def get_descent(model: AdversarialModel) -> Descent | None:
    """Returns how the optimizer moves the variables, or `None` if it is not `SGD`."""
    # A loss-scale optimizer wraps the optimizer that moves the variables.
    optimizer: Any = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    optimizers = [optimizer] * len(model.trainable_variables)
    if isinstance(optimizer, PerVariable) and optimizer.optimizer_indices is not None:
        optimizers = [optimizer.optimizers[index] for index in optimizer.optimizer_indices]
    if not all(isinstance(sgd, keras.optimizers.SGD) for sgd in optimizers):
        return None
    settings = {(sgd.momentum, sgd.nesterov) for sgd in optimizers}
    rates = [float(to_float64(sgd.learning_rate)) for sgd in optimizers]
    if len(settings) > 1 or rates[0] <= 0:
        return None
    return Descent(rates[0], [rate / rates[0] for rate in rates], *settings.pop())
