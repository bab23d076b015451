"""The diagnostics by name, with the healthy ranges of their measurements.

A diagnostic is a function `(model, data, ...)` that returns measurements by name and leaves the
model as it is. These arguments mean the same in every diagnostic:

- `model`: a model of the kind that it measures
- `data`: one batch, `({"source": xs, "target": xt}, ys)`; for a model from elsewhere than
  `dann.adaptation` its inputs. `check`, `measure` and the callback also take pairs of
  `dann.data.pair`
- `mode`: where gradients are computed, `"eager"`, `"graph"` or `"xla"`. Defaults to the mode in
  which `fit` runs the model
- `seed`: seed of everything random. Defaults to `0`

A model that does not fit raises a `TypeError` or a `ValueError`.
"""

import fnmatch
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dann.diagnostics.certificate import certify
from dann.diagnostics.conflict import gradient_conflict
from dann.diagnostics.discriminator_vs_probe import discriminator_vs_probe
from dann.diagnostics.feature_distance import feature_distance
from dann.diagnostics.jacobians import jacobians
from dann.diagnostics.label_loss_baselines import label_loss_baselines
from dann.diagnostics.minmax_spectrum import minmax_spectrum
from dann.diagnostics.reversal_state import ALIKE, OFF, TOLERANCE
from dann.diagnostics.sharpness import sharpness
from dann.diagnostics.signal_propagation import signal_propagation
from dann.diagnostics.straight_through_health import straight_through_health

ALIGNED, APART = 0.67, 0.85  # shares of examples told apart: aligned up to, apart from

Bounds = tuple[float, float]


class HealthyRange(NamedTuple):
    """The values at which a measurement is healthy.

    Args:
        name: Name of the measurement. `*` stands for the name of a layer.
        bounds: Smallest and largest healthy value, or a function from all measurements to them; a
            `KeyError` in it means that they are not known.
        meaning: What the measurement is.
        advice: What to do about a value outside.
        verdict: The verdict on a model with such a value. Defaults to `None`: none by itself.
    """

    name: str
    bounds: Bounds | Callable[[Mapping[str, Any]], Bounds]
    meaning: str
    advice: str
    verdict: str | None = None


class Diagnostic(NamedTuple):
    """A diagnostic and what is done with it.

    Args:
        function: The function `(model, data, ...)`.
        question: What it answers.
        quick: Whether it takes a second or so, and `check` runs it.
        like_a_step: Whether it works like a training step; `measure` then gives it few examples.
    """

    function: Callable[..., dict[str, Any]]
    question: str = ""
    quick: bool = False
    like_a_step: bool = False


class Evidence(NamedTuple):
    """A measured value beside its healthy range; the bounds may be infinite."""

    name: str
    value: float
    low: float
    high: float
    range: HealthyRange

    @property
    def is_healthy(self) -> bool:
        """Whether the value lies in its range."""
        return self.low <= self.value <= self.high


def evidence(measurements: Mapping[str, Any]) -> list[Evidence]:
    """Returns the measurements that have a healthy range, those outside it first."""
    found = []
    for one in RANGES:
        for name in fnmatch.filter(measurements, one.name):
            try:
                low, high = one.bounds(measurements) if callable(one.bounds) else one.bounds
            except KeyError:  # it depends on what was not measured
                continue
            found.append(Evidence(name, float(measurements[name]), low, high, one))
    return sorted(found, key=lambda each: each.is_healthy)


def _near_strength(found):
    strength = found["reversal/strength"]
    if strength == 0:  # a ratio of 0 is right then, but not healthy
        return 1e-6, math.inf
    return (1 - TOLERANCE) * strength, (1 + TOLERANCE) * strength


def _not_one_class(found):
    """Up to .9, or half way from the largest share of a class among the labels to 1."""
    return -math.inf, max(0.9, (1 + found.get("label/largest_share", 0.0)) / 2)


def _not_runaway(found):
    """Up to 1.1, or what the way down from a saddle explains, but at most 1.5."""
    push = found["game/step"] * max(-found.get("game/min_real_part", 0.0), 0.0)
    return -math.inf, max(1.1, min(1 + push + math.sqrt(push + push**2), 1.5))


DIAGNOSTICS: dict[str, Diagnostic] = {
    "certify": Diagnostic(certify, "Is the gradient reversed?", True, True),
    "discriminator_vs_probe": Diagnostic(
        discriminator_vs_probe, "Can a probe tell the domains apart?", True
    ),
    "feature_distance": Diagnostic(feature_distance, "How far apart are the features?", True),
    "label_loss_baselines": Diagnostic(
        label_loss_baselines, "Which labels are learnt and predicted?", True
    ),
    "gradient_conflict": Diagnostic(gradient_conflict, "How do both losses pull?", True, True),
    "straight_through_health": Diagnostic(
        straight_through_health, "Do gradients pass the binary layers?", True, True
    ),
    "jacobians": Diagnostic(jacobians, "How do the outputs follow the inputs?"),
    "signal_propagation": Diagnostic(
        signal_propagation, "Do derivatives pass the backbone's layers?"
    ),
    "minmax_spectrum": Diagnostic(
        minmax_spectrum, "Does the game of both players settle?", like_a_step=True
    ),
    "sharpness": Diagnostic(sharpness, "How sharply does the label loss bend?", like_a_step=True),
}

RANGES = (
    HealthyRange(
        "features/spread",
        (1e-6, math.inf),
        "Spread of the features. 0: they are the same for every example.",
        "Look for dead units, weights of 0, a learning rate too high, inputs all alike.",
        "backbone dead",
    ),
    HealthyRange(
        "reversal/cosine",
        (-1.001, -ALIKE),  # -1 up to rounding
        "Direction of the gradient behind the reversal. -1: reversed, +1: not.",
        "Look for a reversal that is missing, or there twice.",
    ),
    HealthyRange(
        "reversal/ratio",
        _near_strength,
        "Strength of the reversal that arrives; it should be the one that it reports.",
        "Look for another factor on the loss; a strength of 0 must rise.",
    ),
    HealthyRange(
        "reversal/head_error",
        (-math.inf, OFF),
        "Change of the discriminator's own gradient by the reversal. 2: reversed too.",
        "Put the reversal before the discriminator.",
    ),
    HealthyRange(
        "reversal/head_norm",
        (1e-30, math.inf),
        "Gradient of the discriminator's weights. 0: it cannot learn.",
        "Make its weights trainable; end it in one logit, without softmax or sigmoid.",
        "discriminator dead",
    ),
    HealthyRange(
        "domain/spread",
        (1e-4, math.inf),
        "Spread of the discriminator's output. 0: it says the same for every example.",
        "End it in one logit, without softmax or sigmoid; lower its learning rate.",
        "discriminator dead",
    ),
    HealthyRange(
        "domain/loss",
        lambda found: (-math.inf, found["probe/loss"] + 0.3),
        "Loss of the live discriminator; far above a fresh one's if it is weak.",
        "Make it larger, or let it learn faster (`dann.optimizers.faster_heads`).",
    ),
    HealthyRange(
        "game/growth",
        _not_runaway,
        "Growth of the fastest direction in a step. Far above 1 the players run away.",
        "Lower the learning rate or the momentum, or let the strength rise more slowly.",
        "unstable",
    ),
    HealthyRange(
        "binary/*/pass_rate",
        (0.1, math.inf),
        "Share of the gradient that a binary layer passes on.",
        "Put batch normalization before the layer, or scale its inputs down to [-1, 1].",
        "saturated binary layer",
    ),
    HealthyRange(
        "target/largest_share",
        _not_one_class,
        "Share of the target that is predicted as one class.",
        "Lower the strength or let it rise more slowly; add `regularizer=mcc`.",
        "collapsed",
    ),
    HealthyRange(
        "label/loss",
        lambda found: (-math.inf, 0.9 * found["label/prior_entropy"]),
        "Loss of the labels in nats. Guessing by the classes' shares costs a little more.",
        "Check the labels; lower the strength or start it later (`WarmStart`); train longer.",
        "labels not learned",
    ),
    HealthyRange(
        "target/share_distance",
        lambda found: (-math.inf, found["target/chance_share_distance"] + 0.12),
        "How far the target's shares of the classes, as predicted, are from the source's.",
        "Inputs that moved from one class towards another look the same. If the shares really "
        "differ, aligning the domains as wholes moves examples into wrong classes: use a method "
        "for that, such as `PADA`, and a lower strength.",
        "label shift",
    ),
    HealthyRange(
        "probe/accuracy",
        (-math.inf, ALIGNED),
        "Share of examples that a fresh probe tells apart: 50% is aligned. The verdict goes by its "
        "95% interval.",
        "Train longer or raise the strength; keep source only if its InfoMax is higher.",
    ),
    HealthyRange(
        "conflict/ratio",
        (0.1, 100),
        "Pull of the adversary on the backbone, beside that of the labels.",
        "Below, raise the strength; above, lower it.",
    ),
    HealthyRange(
        "conflict/cosine",
        (-0.9, 1.0),
        "Angle of both pulls. Somewhat negative is usual; near -1 they cancel.",
        "Lower the strength.",
    ),
    HealthyRange(
        "jacobian/target_to_source",
        (0.25, 4),
        "How strongly the logits follow the target's inputs, as a multiple of the source's.",
        "Compare the preprocessing of both domains; augment.",
    ),
    HealthyRange(
        "rank/target/rank_share",
        (0.05, math.inf),
        "Share of the directions that the target's features use.",
        "Lower the strength; use fewer features.",
    ),
    HealthyRange(
        "signal/target/gain_range",
        (-math.inf, 1000),
        "Range of the layers' gains. Orders of magnitude are derivatives that explode or vanish.",
        "Add normalization; look for the layer where `gain` jumps.",
    ),
    HealthyRange(
        "sharpness/top_eigenvalue",
        lambda found: (-math.inf, 2 / found["game/step"]),
        "Largest curvature of the label loss; plain descent overshoots above the end.",
        "Lower the learning rate.",
    ),
)
