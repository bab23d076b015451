"""The state of a reversal, from the gradients with the reversal and without it."""

from typing import Any, NamedTuple

import numpy as np
from keras import ops

from dann.diagnostics.passes import cosine, length_ratio

MIN_PARALLEL_COSINE = 0.99  # cosine above which two gradients have the same direction
MAX_HEAD_CHANGE = 0.1  # share of the discriminator's gradient that the reversal may change
STRENGTH_TOLERANCE = 0.02  # relative difference that is allowed between the ratio and the strength
_MIN_RATIO = 1e-6  # ratio below which no gradient passes
# A change of the loss by all features together below this value is a float32 rounding error.
_MIN_LOSS_CHANGE = 2e-7
# Numbers of future steps at which a schedule is evaluated.
_LOOKAHEAD_STEPS = (1, 10, 100, 1000, 10**4, 10**5, 10**6)


class ReversalGradients(NamedTuple):
    """Gradients of one loss, each flattened to a vector.

    Attributes:
        features: With respect to the inputs of the reversal.
        after: With respect to the outputs of the reversal; empty if it is not measured.
        head: With respect to all weights behind the features; may be empty.
        discriminator: The part of `head` that belongs to the discriminator; may be empty.
    """

    features: np.ndarray
    after: np.ndarray = np.zeros(0)
    head: np.ndarray = np.zeros(0)
    discriminator: np.ndarray = np.zeros(0)


def measure_reversal(
    gradients: ReversalGradients,
    plain: ReversalGradients,
    calls: int = 1,
    strength: float | None = None,
    rises: bool = False,
    feature_norm: float = 0.0,
) -> dict[str, Any]:
    """Compares the gradients with a reversal to the gradients without it.

    Args:
        gradients: Gradients with the reversal.
        plain: Gradients with the identity instead of the reversal.
        calls: Number of calls of the reversal.
        strength: Strength that the reversal reports. Defaults to `None`: the measured ratio.
        rises: Whether a schedule raises the strength later; see `rises_later`.
        feature_norm: Norm of the inputs of the reversal. Defaults to `0`: unknown.

    Returns:
        The measurements `reversal/...` of `certify`.
    """
    with np.errstate(invalid="ignore", over="ignore"):  # gradients may not be finite
        direction = cosine(gradients.features, plain.features)
        ratio = length_ratio(gradients.features, plain.features)
        measurements = {
            "reversal/cosine": direction,
            "reversal/ratio": ratio,
            "reversal/calls": float(calls),
        }
        expected = (ratio if direction < 0 else 0.0) if strength is None else strength
        measurements["reversal/strength"] = expected
        if len(plain.discriminator) and calls:
            change = gradients.discriminator - plain.discriminator
            measurements["reversal/head_error"] = length_ratio(change, plain.discriminator)
        if len(plain.head):
            measurements["reversal/head_norm"] = float(np.linalg.norm(gradients.head))
        if not all(np.isfinite(gradient).all() for gradient in (*gradients, *plain)):
            state = "not finite"
        # To first order the loss changes by at most the product of both norms. Features of a norm
        # below 1 may still grow, so 1 replaces a smaller norm.
        elif np.linalg.norm(plain.features) * max(feature_norm, 1.0) < _MIN_LOSS_CHANGE:
            reaches = np.linalg.norm(gradients.after) * max(feature_norm, 1.0) >= _MIN_LOSS_CHANGE
            state = "detached" if reaches else "no gradient"
        elif ratio < _MIN_RATIO and strength in (0, None):
            state = "not started" if rises else "strength 0"
        else:
            state = _classify_state(measurements)
        return measurements | {"reversal/state": state}


def _classify_state(measurements):
    direction, ratio = measurements["reversal/cosine"], measurements["reversal/ratio"]
    calls, strength = measurements["reversal/calls"], measurements["reversal/strength"]
    if ratio < _MIN_RATIO:
        return "detached"
    if abs(direction) < MIN_PARALLEL_COSINE:
        return "partly reversed"
    if direction > 0:
        if not calls:
            return "not applied"
        return "applied twice" if calls > 1 and strength >= 0 else "wrong sign"
    if measurements.get("reversal/head_error", 0.0) > MAX_HEAD_CHANGE:
        return "discriminator reversed"
    return "working" if abs(ratio - strength) <= STRENGTH_TOLERANCE * strength else "wrong strength"


def rises_later(layer: Any, is_trained: bool) -> bool:
    """Returns whether the schedule of a `GradientReversal` exceeds 0 at a later step.

    Returns `False` if the model was trained but the step of the layer is still 0, because the
    layer is then called without `training=True`.
    """
    step = int(np.asarray(ops.convert_to_numpy(layer.step)))
    if layer.schedule is None or (is_trained and step == 0):
        return False
    return any(float(layer.schedule(step + ahead)) > 0 for ahead in _LOOKAHEAD_STEPS)
