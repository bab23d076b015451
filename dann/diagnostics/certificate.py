"""Whether the gradient that reaches the features is reversed, and if not, what is wrong."""

import itertools
import math
from typing import Any

import keras
import numpy as np

from dann.adaptation import AdversarialModel
from dann.diagnostics.catalogue import ANY_MODEL, DIAGNOSTICS
from dann.diagnostics.healthy_ranges import HealthyRange
from dann.diagnostics.instruments.backward_pass import BackwardPass, Gradients, ModelPass, PairPass
from dann.diagnostics.instruments.differences import by_differences
from dann.diagnostics.instruments.modes import inputs_of, mode_of
from dann.diagnostics.instruments.passes import Passes
from dann.diagnostics.instruments.reversal_state import ALIKE, OFF, TOLERANCE, Sides, state_of
from dann.diagnostics.instruments.vectors import cosine, length_ratio, norm


def _near_strength(found):
    strength = found.get("reversal/strength", math.nan)
    if math.isnan(strength):
        return None
    if strength == 0:  # a ratio of 0 is right then, but not healthy
        return 1e-6, math.inf
    return (1 - TOLERANCE) * strength, (1 + TOLERANCE) * strength


@DIAGNOSTICS.register(
    "certificate",
    summary="Certifies that the gradient is reversed on the way from the discriminator to the "
    "features, and names the fault if it is not.",
    models=ANY_MODEL,
    quick=True,
    like_a_step=True,
    order=10,
    healthy=(
        HealthyRange(
            "reversal/cosine",
            "Direction of the reversed gradient",
            "Cosine of the features' gradient with and without the reversal. -1: it is reversed. "
            "+1: the reversal does nothing, or is there twice.",
            low=-1.001,  # -1 up to rounding
            high=-ALIKE,
            words=f"at most {-ALIKE:g}",
        ),
        HealthyRange(
            "reversal/ratio",
            "Strength that arrives",
            "Length of the reversed gradient divided by that of the plain one. It should be the "
            "strength that the reversal reports, and above 0 once the schedule has begun.",
            given=_near_strength,
            words=f"within {TOLERANCE:.0%} of reversal/strength",
        ),
        HealthyRange(
            "reversal/head_error",
            "Change of the discriminator's gradient",
            "Change by the reversal, as a share. It should be 0: the discriminator learns at full "
            "rate. 2: it is reversed too.",
            high=OFF,
        ),
    ),
)
def reversal_certificate(
    model: Any, data: Any, *, mode: str | None = None, passes: Passes | None = None
) -> dict[str, float | str]:
    """Certifies that gradients are reversed on the way from the discriminator to the features.

    It compares the gradient `g` of the loss with respect to the features, as training sees it, with
    the gradient `h` without any reversal: their cosine and lengths. It names the state.
    `docs/diagnostics.md` lists the measurements with their formulas and healthy values.

    For a model of `dann.adaptation` the loss is the model's own adversarial loss in training, and
    the features are those of both domains. For any other Keras model or layer the loss is a random
    sum of the outputs in training, and the features are the inputs of its first reversal. For a
    plain function the features are its inputs. Reversals are found by role, by name (`revers`,
    `grl`) and by behaviour.

    If none is found, central differences of the loss along `g` give the sign and the length of `h`,
    which also detects a reversal inside a function. The diagnostic takes at most 3 backward passes,
    in the mode in which the model trains, or at most 2 for each output if no reversal is found. The
    model does not change.

    Args:
        model: Model of `dann.adaptation`, any Keras model or layer, or a function of a tensor.

    The other arguments are those of every diagnostic; see `dann.diagnostics.catalogue`.

    Raises:
        ValueError: If a `dann` model is not compiled, the mode is unknown, or there is no example.

    Example:

    >>> import keras
    >>> from dann.diagnostics import reversal_certificate
    >>> from dann.layers import GradientReversal
    >>> found = reversal_certificate(GradientReversal(0.5), keras.ops.ones((2, 3)))
    >>> found["reversal/state"], round(found["reversal/cosine"], 3), found["reversal/ratio"]
    ('alive', -1.0, 0.5)

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), equations 13 to 18.
    """
    passes = passes or Passes(model, data)
    _check_examples(passes.tensors)
    run = _pass_of(passes)
    if run is None:
        return {"reversal/state": "none"}
    if not (run.calls or run.features):  # no floating-point inputs, as with text
        return {"reversal/state": "cannot tell"}
    mode = mode or mode_of(model)
    runs = [run] if run.calls else run.each_output()
    with np.errstate(invalid="ignore", over="ignore"):  # gradients may not be finite
        every = [_sides(one, mode) for one in runs]
        chosen = min(every, key=lambda sides: sides.rank)
        measured, layers = _numbers(*chosen)

    def holds_outside() -> bool:
        if keras.backend.backend() != "tensorflow":
            return False
        outside = ((one, one.run.measure("graph", outside=True)) for one in every)
        return any(cosine(g.features, one.plain.features) < -ALIKE for one, g in outside)

    state = state_of(chosen, measured, layers, holds_outside)
    # An output without a gradient, such as a saturated discriminator's, may be the reversed one.
    silent = not chosen.run.calls and any(sides.is_silent for sides in every)
    measured["reversal/state"] = "cannot tell" if state == "forgotten" and silent else state
    for name, (turn, ratio) in layers.items():
        measured[f"reversal/{name}/cosine"] = turn
        measured[f"reversal/{name}/ratio"] = ratio
    return measured


def _check_examples(data):
    shapes = [tuple(x.shape) for x in keras.tree.flatten(inputs_of(data))]
    if any(shape[:1] == (0,) for shape in shapes):
        raise ValueError(
            "Argument `data` must hold at least one example to get a gradient. "
            f"Received: inputs of shape {', '.join(map(str, shapes))}"
        )


def _sides(run: BackwardPass, mode: str) -> Sides:
    found = run.measure(mode)
    if run.calls:
        plain = run.measure(mode, taken_out=True)
        return Sides(run, found, plain, cosine(found.features, plain.features))
    plain, agreement = by_differences(run, found, mode)
    return Sides(run, found, plain, agreement * cosine(found.features, plain.features))


def _numbers(run, found, plain, turn) -> tuple[dict[str, Any], dict[str, tuple[float, float]]]:
    """Returns the measurements, and the cosine and ratio of each reversal by name."""
    measured: dict[str, Any] = {
        "reversal/cosine": turn,
        "reversal/ratio": length_ratio(found.features, plain.features),
        "reversal/feature_norm": norm(plain.features),
        "reversal/calls": float(len(run.calls)),
    }
    own = [True] * len(found.head) if run.unreversed is None else run.unreversed
    if any(own) and run.calls:
        given, expected = (list(itertools.compress(g.head, own)) for g in (found, plain))
        difference = [a - b for a, b in zip(given, expected, strict=True)]
        measured["reversal/head_error"] = length_ratio(difference, expected)
    if found.head:
        measured["reversal/head_norm"] = norm(found.head)
    if found.backbone:
        measured["reversal/backbone_cosine"] = cosine(found.backbone, plain.backbone)
        measured["reversal/backbone_ratio"] = length_ratio(found.backbone, plain.backbone)
    layers = _by_layer(run, found)
    measured["reversal/strength"] = _strength(run, measured, layers)
    return measured, layers


def _pass_of(passes) -> BackwardPass | None:
    if isinstance(passes.model, AdversarialModel):
        return None if passes.model.reversal is None else PairPass(passes)
    kind = ModelPass if isinstance(passes.model, keras.Layer) else BackwardPass
    return kind(passes)


def _by_layer(run: BackwardPass, found: Gradients) -> dict[str, tuple[float, float]]:
    """Returns cosine and ratio of the gradients behind and before a reversal, over its calls."""
    sides = {}
    for name in dict.fromkeys(call.name for call in run.calls):
        own = [i for i, call in enumerate(run.calls) if call.name == name]
        before, after = [found.before[i] for i in own], [found.after[i] for i in own]
        sides[name] = cosine(before, after), length_ratio(before, after)
    return sides


def _strength(run, measured, layers) -> float:
    """Returns the strength that the first reversal reports, or else the measured one."""
    if run.calls:
        turning = [call for call in run.calls if layers[call.name][0] < 0]
        first = (turning or run.calls)[0]
        return run.strengths.get(id(first.layer), layers[first.name][1])
    return measured["reversal/ratio"] if measured["reversal/cosine"] < 0 else 0.0
