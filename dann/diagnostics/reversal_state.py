"""The state of a reversal, from the gradients with it and without it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from dann.diagnostics.passes import as_vector, cosine, length_ratio

ALIKE = 0.99  # cosine above which two gradients have the same direction
OFF = 0.1  # share of the discriminator's gradient that the reversal may change
TOLERANCE = 0.02  # share of the strength by which the ratio may differ from it
_NOTHING = 1e-6  # ratio below which no gradient comes through
_VANISHED = 2e-7  # change of the loss by all of the features below which it is rounding
_LATER = (1, 10, 100, 1000, 10**4, 10**5, 10**6)  # steps at which a schedule may have risen


class Pull(NamedTuple):
    """Gradients by the features, by what the reversal returns, and by weights behind it."""

    features: np.ndarray
    after: np.ndarray
    head: np.ndarray
    own: np.ndarray  # the part of `head` by the discriminator's weights


class Reversal(NamedTuple):
    """What is known of a reversal without its gradients."""

    size: float  # norm of its inputs
    calls: int
    strength: float | None  # that it reports
    rises: bool  # whether a schedule raises it later


def pull_of(gradients: Sequence[Any]) -> Pull:
    """Returns the pull of gradients through a layer without weights behind it."""
    none, own = np.zeros(0), as_vector(gradients)
    return Pull(own, own, none, none)


def judged(found: Pull, plain: Pull, reversal: Reversal) -> dict[str, Any]:
    """Returns the measurements of a reversal from the gradients with it and without it."""
    with np.errstate(invalid="ignore", over="ignore"):  # gradients may not be finite
        turn = cosine(found.features, plain.features)
        ratio = length_ratio(found.features, plain.features)
        measured = {"reversal/cosine": turn, "reversal/ratio": ratio}
        measured["reversal/calls"] = float(reversal.calls)
        wanted = (ratio if turn < 0 else 0.0) if reversal.strength is None else reversal.strength
        measured["reversal/strength"] = wanted
        if len(found.own) and reversal.calls:
            measured["reversal/head_error"] = length_ratio(found.own - plain.own, plain.own)
        if len(found.head):
            measured["reversal/head_norm"] = float(np.linalg.norm(found.head))
        return measured | {"reversal/state": _state(found, plain, reversal, measured)}


def _state(found, plain, reversal, measured):
    turn, ratio = measured["reversal/cosine"], measured["reversal/ratio"]
    if not all(np.isfinite(part).all() for part in (*found, *plain)):
        return "not finite"
    size = max(reversal.size, 1.0)
    if np.linalg.norm(plain.features) * size < _VANISHED:
        return "detached" if np.linalg.norm(found.after) * size >= _VANISHED else "no gradient"
    if ratio < _NOTHING:
        if reversal.strength not in (0, None):
            return "detached"
        return "not started" if reversal.rises else "strength 0"
    if abs(turn) < ALIKE:
        return "partly reversed"
    if turn > 0:
        if not reversal.calls:
            return "not applied"
        twice = reversal.calls > 1 and measured["reversal/strength"] >= 0
        return "applied twice" if twice else "wrong sign"
    if measured.get("reversal/head_error", 0.0) > OFF:
        return "discriminator reversed"
    wanted = measured["reversal/strength"]
    return "alive" if abs(ratio - wanted) <= TOLERANCE * wanted else "wrong strength"


def rises_later(layer: Any, trained: bool) -> bool:
    """Returns whether a schedule rises later; it cannot if its steps are not counted."""
    if layer.schedule is None:
        return False
    now = int(np.asarray(ops.convert_to_numpy(layer.step)))
    if trained and now == 0:
        return False
    return any(float(layer.schedule(now + later)) > 0 for later in _LATER)
