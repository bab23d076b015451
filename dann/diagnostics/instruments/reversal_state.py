"""What is wrong with a reversal, in words."""

from typing import Any, NamedTuple

import numpy as np
from keras import ops

from dann.diagnostics.instruments.reversed_pass import Gradients
from dann.diagnostics.instruments.vectors import cosine, length_ratio, norm
from dann.layers import GradientReversal

ALIKE = 0.99  # cosine above which two gradients have the same direction
OFF = 0.1  # share of the discriminator's gradient that the reversal may change
TOLERANCE = 0.02  # share of the strength by which the ratio may differ from it
NOTHING = 1e-6  # ratio below which no gradient comes through
VANISHED = 2e-7  # change of the loss by all of the features below which it is rounding
LATER = [10**power for power in range(7)]  # steps from now at which a schedule may have risen

FAULTS = {
    "forgotten": "Nothing reverses the gradient between the discriminator and the features: they "
    "learn to separate the domains. Put a `GradientReversal` there.",
    "applied twice": "The gradient is reversed and reversed back: {calls:.0f} calls of reversals "
    "follow each other. Take one out.",
    "wrong sign": "A reversal is there but does not change the sign of the gradient "
    "(cosine {cosine:+.2f}).",
    "changes values": "The reversal does not pass its inputs on as they are.",
    "discriminator reversed": "The reversal changes the discriminator's own gradient (by "
    "{head_error:.2g} of it), so it does not learn at its full rate to tell the domains apart. Put "
    "the reversal before the discriminator.",
    "behind the discriminator": "No trainable weight lies between the reversal and the output, so "
    "it reverses the discriminator too. Put it before the discriminator.",
    "not reached": "No output of the model comes from the reversal, so no loss reaches it.",
    "strength 0": "The strength of the reversal is 0, and no known schedule raises it: the "
    "features learn nothing about the domains.",
    "cut": "No gradient of the discriminator arrives at the backbone: something on the way stops "
    "it.",
    "partly reversed": "Only a part of the gradient is reversed (cosine {cosine:+.2f}).",
}


class Sides(NamedTuple):
    """The gradients with the reversal and without it, and what else a state is judged by."""

    found: Gradients
    plain: Gradients
    size: float  # of the features
    strength: float | None  # that is reported
    rises: bool  # whether a schedule raises it later


def measured_of(sides: Sides) -> dict[str, Any]:
    """Returns the measurements of a reversal that all kinds of certificates have."""
    found, plain = sides.found, sides.plain
    turn, ratio = (
        cosine(found.features, plain.features),
        length_ratio(found.features, plain.features),
    )
    reported = sides.strength
    return {
        "reversal/cosine": turn,
        "reversal/ratio": ratio,
        "reversal/feature_norm": norm(plain.features),
        "reversal/calls": float(len(found.before)),
        "reversal/strength": (ratio if turn < 0 else 0.0) if reported is None else reported,
    }


def state_of(sides: Sides, measured: dict[str, Any]) -> str:
    """Returns the state of a reversal in words."""
    found, plain, size, strength, rises = sides
    turn, ratio = measured["reversal/cosine"], measured["reversal/ratio"]
    if not all(np.isfinite(x).all() for part in (*found, *plain) for x in part):
        return "not finite"
    if norm(plain.features) * max(size, 1.0) < VANISHED:
        reaches = norm(found.after) * max(size, 1.0) >= VANISHED
        return "cut" if reaches else "no gradient"
    if ratio < NOTHING:
        if strength not in (0, None):
            return "cut"
        return "not begun" if rises else "strength 0"
    if abs(turn) < ALIKE:
        return "partly reversed"
    if turn > 0:
        if not found.before:
            return "forgotten"
        pairs = zip(found.before, found.after, strict=True)
        each = [cosine([before], [after]) for before, after in pairs]
        return "applied twice" if len(each) > 1 and max(each) < -ALIKE else "wrong sign"
    if measured.get("reversal/backbone_ratio", ratio) < NOTHING:
        return "cut"
    if measured.get("reversal/head_error", 0.0) > OFF:
        return "discriminator reversed"
    wanted = measured["reversal/strength"]
    return "alive" if abs(ratio - wanted) <= TOLERANCE * wanted else "wrong strength"


def rises_later(layer: Any, trained: bool) -> bool:
    """Returns whether a schedule rises later; it cannot if its steps are not counted."""
    if not isinstance(layer, GradientReversal) or layer.schedule is None:
        return False
    now = int(np.asarray(ops.convert_to_numpy(layer.step)))
    if trained and now == 0:
        return False
    return any(float(layer.schedule(now + later)) > 0 for later in LATER)
