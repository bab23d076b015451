"""The vector field along which a training step moves the weights, and the size of the step."""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np

from dann.adaptation import AdversarialModel
from dann.autodiff import gradients
from dann.diagnostics.passes import as_tensors, at_weights, check_method
from dann.optimizers import PerVariable


def get_players(model: Any) -> list[keras.Variable]:
    """Returns the weights of both players of a compiled model, the adversary's last.

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


def step_field(model: AdversarialModel, data: Any) -> Callable[..., list]:
    """Returns the field that a model descends in `fit`, as a function of its weights.

    The gradient passes the reversal, and some methods hold tensors constant, such as `CDAN` its
    predictions. The values of the field are the steps of the training, but automatic
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
        step: Current learning rate of the first variable.
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
    optimizer = model.optimizer
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # of a loss-scale optimizer
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
