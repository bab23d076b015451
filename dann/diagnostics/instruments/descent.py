"""How an optimizer of plain gradient descent moves each weight."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras

from dann.adaptation import AdversarialModel
from dann.optimizers import PerVariable


class Descent(NamedTuple):
    """Gradient descent with momentum.

    Attributes:
        step: The first variable's present learning rate.
        factors: Each variable's learning rate in multiples of it.
        momentum: In [0, 1).
        nesterov: Whether the momentum is Nesterov's.
    """

    step: float
    factors: list[float]
    momentum: float
    nesterov: bool


def descent_of(model: AdversarialModel, variables: Sequence[keras.Variable]) -> Descent | None:
    """Returns how the model's optimizer moves variables, or `None` if it is not `SGD`.

    Args:
        model: The model; it may have no optimizer.
        variables: Some of its trainable variables.
    """
    optimizer = getattr(model, "optimizer", None)
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # under a loss scale
    parts = _parts(model, optimizer, variables)
    if not all(isinstance(part, keras.optimizers.SGD) for part in parts):
        return None
    settings = {(part.momentum, part.nesterov) for part in parts}
    rates = [float(part.learning_rate) for part in parts]
    if len(settings) > 1 or rates[0] <= 0:
        return None
    return Descent(rates[0], [rate / rates[0] for rate in rates], *settings.pop())


def _parts(model, optimizer: Any, variables):
    if not isinstance(optimizer, PerVariable) or optimizer.places is None:
        return [optimizer] * len(variables)
    places = zip(model.trainable_variables, optimizer.places, strict=True)
    place_of = {id(variable): place for variable, place in places}
    return [optimizer.optimizers[place_of[id(variable)]] for variable in variables]
