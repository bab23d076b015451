"""The diagnostics by name, with the healthy ranges of their measurements.

A diagnostic is a function `(model, data, ...)` that returns measurements by name and leaves the
model as it is. These arguments mean the same in every diagnostic:

- `model`: a model of the kind that it measures
- `data`: one batch, `({"source": xs, "target": xt}, ys)`; for a model from elsewhere than
  `dann.adaptation` its inputs. `check`, `measure` and the callback also take pairs of
  `dann.data.pair`
- `mode`: where gradients are computed, `"eager"`, `"graph"` or `"xla"`. Defaults to the mode in
  which `fit` runs the model
- `training`: whether layers work as in a training step, such as batch normalization by the batch.
  Defaults to `True`
- `seed`: seed of everything random. Defaults to `0`

A model that does not fit raises a `TypeError` or a `ValueError`.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

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

SAME = 1e-6  # spread of the features below which they are the same for every example
CONSTANT = 1e-4  # deviation of the discriminator's logits below which they are all equal
APART = 0.35  # domain loss in nats below which the domains are apart; knowing nothing is .693
BEHIND = 0.5  # nats by which a live discriminator may lose more than a fresh one
ONE_CLASS = 0.9  # share of the target in one class, if the labels' share is far below
UNLEARNT = 0.9  # label loss as a share of the loss if only the classes' shares are known
PASSED = 0.1  # share of the gradient that a binary layer must pass
GROWTH = 1.1  # a direction may grow by this factor in a step

Bounds = tuple[float, float]


@dataclasses.dataclass(frozen=True)
class HealthyRange:
    """The values at which a measurement is healthy.

    Args:
        name: Name of the measurement. `*` stands for the name of a layer.
        bounds: Smallest and largest healthy value, or a function from all measurements to them; a
            `KeyError` in it means that they are not known.
        advice: What a value means, in a sentence or two.
    """

    name: str
    bounds: Bounds | Callable[[Mapping[str, Any]], Bounds]
    advice: str


@dataclasses.dataclass(frozen=True)
class Diagnostic:
    """A diagnostic and what is done with it.

    Args:
        function: The function `(model, data, ...)`.
        healthy: The healthy ranges of its measurements.
        quick: Whether it takes a second or so, and `check` runs it.
        like_a_step: Whether it works like a training step; `measure` then gives it few examples.
    """

    function: Callable[..., dict[str, Any]]
    healthy: tuple[HealthyRange, ...] = ()
    quick: bool = False
    like_a_step: bool = False


def _near_strength(found):
    strength = found["reversal/strength"]
    if strength == 0:  # a ratio of 0 is right then, but not healthy
        return 1e-6, math.inf
    return (1 - TOLERANCE) * strength, (1 + TOLERANCE) * strength


DIAGNOSTICS: dict[str, Diagnostic] = {
    "certificate": Diagnostic(
        certify,
        (
            HealthyRange(
                "reversal/cosine",
                (-1.001, -ALIKE),  # -1 up to rounding
                "Direction of the reversed gradient. +1: the reversal does nothing, or is there "
                "twice.",
            ),
            HealthyRange(
                "reversal/ratio",
                _near_strength,
                "Strength that arrives. It should be the one that the reversal reports, and above "
                "0 once the schedule has begun.",
            ),
            HealthyRange(
                "reversal/head_error",
                (-math.inf, OFF),
                "Change of the discriminator's gradient by the reversal. 2: it is reversed too.",
            ),
        ),
        quick=True,
        like_a_step=True,
    ),
    "winning": Diagnostic(
        discriminator_vs_probe,
        (
            HealthyRange(
                "features/spread",
                (SAME, math.inf),
                "Spread of the features. 0: they are the same for every example.",
            ),
            HealthyRange(
                "domain/spread",
                (CONSTANT, math.inf),
                "Spread of the discriminator's output. 0: it says the same for every example.",
            ),
            HealthyRange(
                "domain/loss",
                lambda found: (APART, max(found.get("probe/loss", math.inf), APART) + BEHIND),
                "Loss of the live discriminator in nats; .693 is chance. Far above that of a fresh "
                "one, it is weak or overrun.",
            ),
            HealthyRange(
                "probe/loss",
                (APART, math.inf),
                "Loss of a fresh discriminator in nats. .693: the domains are alike. Towards 0: "
                "they are apart.",
            ),
        ),
        quick=True,
    ),
    "distance": Diagnostic(feature_distance, quick=True),
    "bounds": Diagnostic(
        label_loss_baselines,
        (
            HealthyRange(
                "target/largest_share",
                lambda found: (
                    -math.inf,
                    max(ONE_CLASS, (1 + found.get("label/largest_share", 0.0)) / 2),
                ),
                "Share of the target predicted as one class. Near 1 the target has collapsed.",
            ),
            HealthyRange(
                "label/loss",
                lambda found: (-math.inf, UNLEARNT * found["label/prior_entropy"]),
                "Label loss in nats. A model that knows only the classes' shares has little more "
                "than the upper end.",
            ),
        ),
        quick=True,
    ),
    "conflict": Diagnostic(
        gradient_conflict,
        (
            HealthyRange(
                "conflict/ratio",
                (0.1, 100),
                "Weight of the adversary on the backbone, beside the labels'. Below, it hardly "
                "counts; above, the labels hardly count.",
            ),
            HealthyRange(
                "conflict/cosine",
                (-0.9, 1.0),
                "Angle of both gradients. Somewhat negative is usual; near -1 they cancel.",
            ),
        ),
        quick=True,
        like_a_step=True,
    ),
    "jacobians": Diagnostic(
        jacobians,
        (
            HealthyRange(
                "jacobian/target_to_source",
                (0.25, 4),
                "How strongly the logits follow the inputs on the target, beside the source. Far "
                "above 1 the target lies where the network was not trained.",
            ),
            HealthyRange(
                "rank/target/rank_share",
                (0.05, math.inf),
                "Share of the directions that the target's features use. Near 0 they have "
                "collapsed into a few.",
            ),
        ),
    ),
    "signal": Diagnostic(
        signal_propagation,
        (
            HealthyRange(
                "signal/target/gain_range",
                (-math.inf, 1000),
                "Range of the layers' gains. Many orders of magnitude are derivatives that explode "
                "or vanish.",
            ),
        ),
    ),
    "game": Diagnostic(
        minmax_spectrum,
        (
            HealthyRange(
                "game/largest_stable_step",
                lambda found: (found["game/step"], math.inf),
                "Above this learning rate plain simultaneous descent overshoots.",
            ),
            HealthyRange(
                "game/growth",
                (-math.inf, GROWTH),
                "Growth of the fastest direction in a step. A little above 1 is usual away from a "
                "minimum.",
            ),
        ),
        like_a_step=True,
    ),
    "straight_through": Diagnostic(
        straight_through_health,
        (
            HealthyRange(
                "binary/*/passed",
                (PASSED, math.inf),
                "Share of the gradient that a binary layer passes on. Near 0 the layers before it "
                "stop learning.",
            ),
        ),
        quick=True,
        like_a_step=True,
    ),
    "sharpness": Diagnostic(
        sharpness,
        (
            HealthyRange(
                "sharpness/top_eigenvalue",
                lambda found: (-math.inf, 2 / found["game/step"]),
                "Largest curvature of the label loss. Above 2 divided by the learning rate plain "
                "descent overshoots.",
            ),
        ),
        like_a_step=True,
    ),
}
