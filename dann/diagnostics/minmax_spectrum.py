"""Measures the min-max game of backbone and discriminator, by the spectrum of its vector field."""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np

from dann.adaptation import DANN, AdversarialModel
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
from dann.diagnostics.spectrum import spectrum
from dann.optimizers import PerVariable

_NEUTRAL = 1e-4  # eigenvalues below this fraction of the largest one do not move the weights


def minmax_spectrum(model: Any, data: Any, k: int = 3, seed: int = 0) -> dict[str, Any]:
    """Measures whether simultaneous gradient descent converges, rotates or diverges.

    With label loss `L`, domain loss `D`, strength `s` and the weights `f`, `c`, `d` of backbone,
    label head and discriminator, a step moves the weights `w = (f, c, d)` along the field

    - `v(w) = (dL/df - s dD/df, dL/dc, dD/dd)`, `w <- w - step * v(w)`

    and near a point the eigenvalues `mu` of `J = dv/dw` determine the dynamics. A step multiplies
    each eigenvector by `1 - step * mu`: a positive real part attracts, a negative real part repels,
    an imaginary part rotates.

    For `DANN` itself the losses are differentiated without the reversal, with the signs written
    out. For all other methods with a reversal, and for classes that derive from `DANN`, the field
    is the gradient that a step takes, and `J v` is a central difference of it, because automatic
    differentiation would pass the reversal and lose the rotation.

    - `game/radius`: `max |mu|`; `game/rotation`: `max |Im mu|`; `game/min_real_part`: `min Re mu`
    - `game/largest_stable_step`: `min 2 Re mu / |mu|^2` over the eigenvectors that attract, above
      which plain gradient descent overshoots; it is missing if none attracts
    - `game/step`, `game/growth`: the learning rate, and the factor by which the fastest direction
      grows per step (see `growth`); they are missing for optimizers other than `SGD`
    - `game/eigenvalues/real`, `game/eigenvalues/imag`: the eigenvalues; `game/converged`: the
      fraction of the requested eigenvalues that converged

    If heads learn faster (`dann.optimizers.faster_heads`), the field of their weights is
    multiplied by the factor.

    Args:
        model: Compiled model of `dann.adaptation` with a reversal.
        data: One batch, as in every diagnostic.
        k: Number of eigenvalues per criterion, see `spectrum`. Defaults to `3`.
        seed: Seed of the first vector of the eigenvalue solver. Defaults to `0`.

    Returns:
        Measurements by name.

    Raises:
        ValueError: If the model has no reversal, takes its gradient at moved weights
            (`task_radius`), trains its critic more often than its backbone, is not compiled, or no
            eigenvalue is found.

    Example:

    >>> import dann, numpy as np
    >>> from dann.diagnostics import minmax_spectrum
    >>> model = dann.DANN(dann.networks.mlp_backbone((2,), hidden_units=(3,)), num_classes=2)
    >>> model.compile("sgd")
    >>> x = np.random.default_rng(0).normal(size=(8, 2)).astype("float32")
    >>> game = minmax_spectrum(model, ({"source": x, "target": x + 1}, np.arange(8) % 2))
    >>> game["game/rotation"] <= game["game/radius"]
    True

    Reference:
        - [Mescheder et al., 2017](https://arxiv.org/abs/1705.10461), lemma 4: the step.
        - [Acuna et al., 2022](https://arxiv.org/abs/2202.05352), section 3: domain-adversarial
          training as a game.
    """
    variables, descent = get_players(model), get_descent(model)
    is_explicit = type(model) is DANN
    gradient = (explicit_field if is_explicit else step_field)(model, data)
    factors = descent.factors if descent else [1.0] * len(variables)

    def field(*values):
        return [factor * v for factor, v in zip(factors, gradient(*values), strict=True)]

    values = [variable.value for variable in variables]
    eigenvalues: Any
    # Automatic differentiation ignores tensors that a method holds constant; differences do not.
    eigenvalues, converged = spectrum(field, values, k, seed, differences=not is_explicit)
    if not len(eigenvalues):
        raise ValueError(
            "Expected at least one eigenvalue. Received: none, because a value is not finite or "
            "all derivatives are 0"
        )
    measurements = {
        "game/radius": float(abs(eigenvalues).max()),
        "game/rotation": float(abs(eigenvalues.imag).max()),
        "game/min_real_part": float(eigenvalues.real.min()),
        "game/converged": converged,
        "game/eigenvalues/real": eigenvalues.real,
        "game/eigenvalues/imag": eigenvalues.imag,
    }
    steps = find_stable_steps(eigenvalues)
    if len(steps):
        measurements["game/largest_stable_step"] = float(steps.min())
    if descent:
        measurements["game/step"] = descent.step
        measurements["game/growth"] = growth(
            eigenvalues, descent.step, descent.momentum, descent.nesterov
        )
    return measurements


def find_stable_steps(eigenvalues: np.ndarray) -> np.ndarray:
    """Returns the learning rate where `|1 - step * mu| = 1`, for each eigenvector that attracts."""
    size = abs(eigenvalues)
    attracting = eigenvalues[(size > _NEUTRAL * size.max()) & (np.real(eigenvalues) > 0)]
    # |1 - s mu|^2 = 1 - 2 s Re(mu) + s^2 |mu|^2
    return 2 * np.real(attracting) / abs(attracting) ** 2


def growth(
    eigenvalues: np.ndarray, step: float, momentum: float = 0.0, nesterov: bool = False
) -> float:
    """Returns the factor by which the fastest direction grows per step of gradient descent.

    With momentum `m` the component `w` along an eigenvector of `mu` and its velocity `u` follow
    `u <- m u - step mu w`, `w <- w + u`, or with Nesterov's `w <- w + m u - step mu w`; the factor
    is the largest absolute eigenvalue of this map of two numbers. Without momentum it is
    `max |1 - step * mu|`.

    Args:
        eigenvalues: Complex numbers `mu`.
        step: Learning rate.
        momentum: In [0, 1). Defaults to `0`.
        nesterov: Whether the momentum is Nesterov's. Defaults to `False`.
    """
    scaled = step * np.asarray(eigenvalues, complex)
    # The map of `(u, w)`, one 2x2 matrix per eigenvalue. Nesterov's second row adds m times the new
    # `u`, so its entries are m^2 and 1 - (1 + m) step mu.
    maps = np.empty((len(scaled), 2, 2), complex)
    maps[:, 0, 0], maps[:, 0, 1] = momentum, -scaled
    maps[:, 1, 0] = momentum * (momentum if nesterov else 1.0)
    maps[:, 1, 1] = 1 - ((1 + momentum) * scaled if nesterov else scaled)
    return float(abs(np.linalg.eigvals(maps)).max())


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
    # `get_players` puts the weights of the discriminator last.
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
