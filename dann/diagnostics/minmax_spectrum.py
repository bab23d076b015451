"""The min-max game of backbone and discriminator, by the spectrum of its vector field."""

from typing import Any

import numpy as np

from dann.adaptation import DANN
from dann.diagnostics.fields import descent_of, explicit_field, players, step_field
from dann.diagnostics.spectrum import spectrum

_NEUTRAL = 1e-4  # of the largest eigenvalue: directions of smaller ones stand still


def minmax_spectrum(model: Any, data: Any, k: int = 3, seed: int = 0) -> dict[str, Any]:
    """Finds whether simultaneous gradient descent turns around its goal or runs away from it.

    With label loss `L`, domain loss `D`, strength `s` and the weights `f`, `c`, `d` of backbone,
    label head and discriminator, a step moves the weights `w = (f, c, d)` along the field

    - `v(w) = (dL/df - s dD/df, dL/dc, dD/dd)`, `w <- w - step * v(w)`

    and near a point the eigenvalues `mu` of `J = dv/dw` say where that leads. A step multiplies
    each direction by `1 - step * mu`: a real part above 0 pulls in, one below 0 pushes away, an
    imaginary part turns.

    For `DANN`, with or without label smoothing, the losses are differentiated without the reversal
    and the signs put in by hand. For any other method with a reversal, and for a class that derives
    from `DANN`, the field is the gradient that a step takes, and `J v` comes from central
    differences of it: its own derivative would go through the reversal and lack the rotation.

    - `game/radius`, `game/rotation`: `max |mu|`, `max |Im mu|`; `game/min_real_part`: `min Re mu`
    - `game/largest_stable_step`: `min 2 Re mu / |mu|^2` over directions that pull in, above which
      plain descent overshoots
    - `game/step`, `game/growth`: the learning rate, and the factor by which the fastest direction
      grows in a step (see `growth`); they are missing for optimizers other than `SGD`
    - `game/eigenvalues/real`, `game/eigenvalues/imag`, and `game/converged`, the share of the
      wanted ones that were found

    If heads learn faster (`dann.optimizers.faster_heads`), their part of the field is multiplied by
    the factor.

    Args:
        model: Compiled model of `dann.adaptation` with a reversal.
        k: Number of eigenvalues at each end. Defaults to `3`.

    The other arguments are those of every diagnostic; see `dann.diagnostics.catalogue`.

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
    >>> found = minmax_spectrum(model, ({"source": x, "target": x + 1}, np.arange(8) % 2))
    >>> found["game/rotation"] <= found["game/radius"]
    True

    Reference:
        - [Mescheder et al., 2017](https://arxiv.org/abs/1705.10461), lemma 4: the step.
        - [Acuna et al., 2022](https://arxiv.org/abs/2202.05352), section 3: domain-adversarial
          training as a game.
    """
    variables = players(model)
    descent = descent_of(model)
    exact = type(model) is DANN
    plain = (explicit_field if exact else step_field)(model, data)
    factors = descent.factors if descent else [1.0] * len(variables)

    def field(*values):
        return [factor * slope for factor, slope in zip(factors, plain(*values), strict=True)]

    values = [variable.value for variable in variables]
    eigenvalues, converged = spectrum(field, values, k, seed, differences=not exact)
    if not len(eigenvalues):
        raise ValueError(
            "The eigenvalue solver found none: the weights, the batch or the losses are not "
            "finite, or all derivatives are 0. Received: a spectrum without eigenvalues"
        )
    measured = {**stability(eigenvalues), "game/converged": converged}
    measured["game/eigenvalues/real"] = np.real(eigenvalues)
    measured["game/eigenvalues/imag"] = np.imag(eigenvalues)
    if descent:
        measured["game/step"] = descent.step
        factor = growth(eigenvalues, descent.step, descent.momentum, descent.nesterov)
        measured["game/growth"] = factor
    return measured


def stability(eigenvalues: np.ndarray) -> dict[str, Any]:
    """Returns the measurements from at least one eigenvalue of a field's Jacobian."""
    size = abs(eigenvalues)
    moving = eigenvalues[size > _NEUTRAL * size.max()]
    inward = moving[np.real(moving) > 0]
    steps = 2 * np.real(inward) / abs(inward) ** 2
    return {
        "game/radius": float(size.max()),
        "game/rotation": float(abs(np.imag(eigenvalues)).max()),
        "game/min_real_part": float(np.real(eigenvalues).min()),
        "game/largest_stable_step": float(steps.min(initial=np.inf)),
    }


def growth(
    eigenvalues: np.ndarray, step: float, momentum: float = 0.0, nesterov: bool = False
) -> float:
    """Returns the factor by which the fastest direction grows in a step of gradient descent.

    With momentum `m` the direction `w` of an eigenvalue `mu` and its velocity `u` follow
    `u <- m u - step mu w`, `w <- w + u`, or with Nesterov's `w <- w + m u - step mu w`; the factor
    is the largest absolute eigenvalue of this map of two numbers. Without momentum it is
    `max |1 - step * mu|`. Momentum lies in [0, 1).
    """
    pull = step * np.asarray(eigenvalues, complex)
    of_velocity = momentum * (momentum if nesterov else 1.0)
    of_weight = (1 + momentum) * pull if nesterov else pull
    maps = np.empty((len(pull), 2, 2), complex)
    maps[:, 0, 0], maps[:, 0, 1] = momentum, -pull
    maps[:, 1, 0], maps[:, 1, 1] = of_velocity, 1 - of_weight
    return float(abs(np.linalg.eigvals(maps)).max())
