"""What is wrong with a reversal, in words."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from dann.adaptation.training_state import steps_taken
from dann.diagnostics.instruments.backward_pass import BackwardPass, Gradients, PairPass
from dann.diagnostics.instruments.layer_calls import Call
from dann.diagnostics.instruments.vectors import cosine, norm
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
    "discriminator reversed": "The reversal changes the discriminator's own gradient (by "
    "{head_error:.2g} of it), so it does not learn at its full rate to tell the domains apart. Put "
    "the reversal before the discriminator.",
    "graph override": "The gradient is reversed only for a tape outside the function that holds "
    "the operation, not in `fit`, which silently ignores a bare `gradient_override_map`. Use "
    "`GradientReversal`, or `override_op_gradients`.",
    "strength 0": "The strength of the reversal is 0, and no known schedule raises it: the "
    "features learn nothing about the domains.",
    "cut": "No gradient of the discriminator arrives at the backbone: something on the way stops "
    "it, or a reversal that is not a layer has strength 0.",
    "partly reversed": "Only a part of the gradient is reversed (cosine {cosine:+.2f}).",
}


class Sides(NamedTuple):
    """A pass, its gradients with and without the reversals, and the cosine of the two."""

    run: BackwardPass
    found: Gradients
    plain: Gradients
    turn: float

    @property
    def is_silent(self) -> bool:
        """Whether the features change the loss by no more than rounding."""
        return is_nothing(self.run, self.plain.features)

    @property
    def rank(self) -> int:
        """Sort key of passes: first those that are not finite, then those that are reversed."""
        if not (self.found.are_finite() and self.plain.are_finite()):
            return 0
        if self.is_silent:
            return 4
        return 1 if self.turn < -ALIKE else 2 if self.turn < ALIKE else 3


def is_nothing(run: BackwardPass, gradients: Sequence[np.ndarray]) -> bool:
    """Returns whether, by these gradients, the features change the loss only by rounding."""
    return norm(gradients) * max(run.size, 1.0) < VANISHED


def state_of(
    sides: Sides,
    measured: Mapping[str, Any],
    layers: Mapping[str, tuple[float, float]],
    holds_outside: Callable[[], bool],
) -> str:
    """Returns the state of the reversals in words; see `reversal_certificate`.

    `layers` holds the cosine and ratio of each reversal by name. `holds_outside` returns whether
    the gradient is reversed for a tape outside the compiled function.
    """
    run, found, _, turn = sides
    if sides.rank == 0:
        return "not finite"
    ratio = measured["reversal/ratio"]
    if sides.is_silent:
        if not run.calls:
            return "no gradient" if is_nothing(run, found.features) else "cannot tell"
        return "no gradient" if is_nothing(run, found.after) else "cut"
    if min([ratio, *(of_layer for _, of_layer in layers.values())]) < NOTHING:
        return _state_without_gradient(run, found, layers)
    if abs(turn) < ALIKE:
        return "partly reversed" if run.calls else "cannot tell"
    strength = measured["reversal/strength"]
    is_right = abs(ratio - strength) <= TOLERANCE * strength
    turns = [of_layer for of_layer, _ in layers.values()]
    if turn > 0:
        if holds_outside():
            return "graph override"
        if not turns:
            return "forgotten"
        reverses = max(turns) < -ALIKE and len(run.calls) > 1
        return "applied twice" if reverses else "wrong sign"
    # A layer that only passes on does no harm in a row with a reversal, or before one.
    passing = _in_a_row(run.calls) | _reached_reversed(sides) if is_right else set()
    if any(of_layer > -ALIKE for name, (of_layer, _) in layers.items() if name not in passing):
        return "wrong sign"
    if measured.get("reversal/backbone_ratio", ratio) < NOTHING:
        return "cut"
    if isinstance(run, PairPass) and measured.get("reversal/head_error", 0.0) > OFF:
        return "discriminator reversed"
    return "alive" if is_right else "wrong strength"


def _in_a_row(calls: list[Call]) -> set[str]:
    """Returns the reversals whose input is another's output, or the other way round, by name."""
    given, taken = {id(call.outputs) for call in calls}, {id(call.inputs) for call in calls}
    return {call.name for call in calls if id(call.inputs) in given or id(call.outputs) in taken}


def _reached_reversed(sides: Sides) -> set[str]:
    """Returns the names of the reversals whose gradient another has already reversed."""
    reached = zip(sides.run.calls, sides.found.after, sides.plain.after, strict=True)
    return {call.name for call, found, plain in reached if cosine([found], [plain]) < -ALIKE}


def _state_without_gradient(run: BackwardPass, found: Gradients, layers) -> str:
    """Returns why no gradient comes through: the strength, which may rise, or something else."""
    stopping = []
    for call, after in zip(run.calls, found.after, strict=True):
        known = run.strengths.get(id(call.layer))
        # The strength of a user's own reversal is known only from what it lets through.
        shows_none = known is None and layers[call.name][1] < NOTHING and norm([after]) > 0
        if known == 0 or shows_none:
            stopping.append(call.layer)
    if not stopping:
        return "cut"
    optimizer = getattr(run.model, "optimizer", None)
    trained = optimizer is not None and steps_taken(run.model) > 0
    rise = all(_rises(layer, trained) for layer in stopping)
    return "not begun" if rise else "strength 0"


def _rises(layer: keras.Layer, trained: bool) -> bool:
    """Returns whether a schedule rises later; it cannot if its steps are not counted."""
    if not isinstance(layer, GradientReversal):
        return False
    now = int(keras.ops.convert_to_numpy(layer.step))
    if layer.schedule is None or (trained and now == 0):
        return False
    return any(float(layer.schedule(now + later)) > 0 for later in LATER)
