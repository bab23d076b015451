"""The diagnostics by name, with the healthy ranges of their measurements.

A diagnostic is a function `(model, data, ...)` that returns measurements by name and does not
change the model. These arguments have the same meaning in every diagnostic:

- `model`: the model to measure
- `data`: one batch, `({"source": xs, "target": xt}, ys)`; for a model that is not from
  `dann.adaptation` its inputs. `check`, `measure` and the callback also accept pairs of
  `dann.data.pair`
- `mode`: where gradients are computed, `"eager"`, `"graph"` or `"xla"`. Defaults to the mode in
  which `fit` runs the model
- `seed`: seed of all random numbers. Defaults to `0`

A diagnostic raises a `TypeError` or a `ValueError` for a model that it cannot measure.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dann.data.probes import MAX_ALIGNED_ACCURACY
from dann.diagnostics.certificate import certify
from dann.diagnostics.conflict import gradient_conflict
from dann.diagnostics.discriminator_vs_probe import discriminator_vs_probe
from dann.diagnostics.feature_distance import feature_distance
from dann.diagnostics.jacobians import jacobians
from dann.diagnostics.label_loss_baselines import label_loss_baselines
from dann.diagnostics.layer_outputs import layer_outputs
from dann.diagnostics.minmax_spectrum import minmax_spectrum
from dann.diagnostics.reversal_state import MAX_HEAD_CHANGE, MIN_PARALLEL_COSINE, STRENGTH_TOLERANCE
from dann.diagnostics.sharpness import sharpness
from dann.diagnostics.signal_propagation import signal_propagation
from dann.diagnostics.straight_through_health import straight_through_health

Bounds = tuple[float, float]

# The end of a run applies these limits to other examples: to the error on the test set, and to the
# predicted class proportions of the whole target.
MAX_LOSS_FRACTION = 0.9  # of the loss of a constant model; above it, the labels are not learned
MAX_SHARE_DISTANCE = 0.2  # total variation distance of class proportions


class HealthyRange(NamedTuple):
    """The healthy values of a measurement.

    Args:
        name: Name of the measurement, where `*` matches the name of a layer.
        bounds: Smallest and largest healthy value, or a function that computes them from all
            measurements. A `KeyError` in the function means that the bounds are unknown.
        meaning: Description of the measurement.
        advice: What to do about a value outside the bounds, without changes of the strength.
            Defaults to nothing.
        verdict: The verdict on a model with a value outside. Defaults to `None`: no verdict.
        strength_changes: What to do about the strength if the value is below, and if it is above
            the bounds: -1 to lower it, 1 to raise it. Defaults to no change.
    """

    name: str
    bounds: Bounds | Callable[[Mapping[str, Any]], Bounds]
    meaning: str
    advice: str = ""
    verdict: str | None = None
    strength_changes: tuple[int, int] = (0, 0)


class Diagnostic(NamedTuple):
    """A diagnostic and its properties.

    Args:
        function: The function `(model, data, ...)`.
        question: The question that the diagnostic answers.
        quick: Whether it takes about a second, so that `check` runs it.
        needs_step_memory: Whether it needs as much memory as a training step. `measure` passes few
            examples to such a diagnostic.
    """

    function: Callable[..., dict[str, Any]]
    question: str = ""
    quick: bool = False
    needs_step_memory: bool = False


def _near_strength(m):
    strength = m["reversal/strength"]
    if strength == 0:  # a ratio of 0 is correct then, but nothing is reversed
        return 1e-6, math.inf
    return (1 - STRENGTH_TOLERANCE) * strength, (1 + STRENGTH_TOLERANCE) * strength


def _below_divergence(m):
    # Training may leave a saddle point, so growth along its descent direction is healthy. With
    # `p = -step * min(Re mu)` and Nesterov momentum near 1, this growth per step is the larger
    # root of `z^2 - 2 (1 + p) z + 1 + p`, which is `1 + p + sqrt(p + p^2)`.
    p = m["game/step"] * max(-m.get("game/min_real_part", 0.0), 0.0)
    return -math.inf, max(1.1, min(1 + p + math.sqrt(p + p**2), 1.5))


DIAGNOSTICS: dict[str, Diagnostic] = {
    "certify": Diagnostic(certify, "Is the gradient reversed?", True, True),
    "discriminator_vs_probe": Diagnostic(
        discriminator_vs_probe, "Can a new probe separate the domains?", True
    ),
    "feature_distance": Diagnostic(feature_distance, "How far apart are the features?", True),
    "label_loss_baselines": Diagnostic(
        label_loss_baselines, "Are the labels learned? Which classes are predicted?", True
    ),
    "gradient_conflict": Diagnostic(
        gradient_conflict, "Do the gradients of both losses conflict?", True, True
    ),
    "straight_through_health": Diagnostic(
        straight_through_health, "Do gradients pass the binary layers?", True, True
    ),
    "layer_outputs": Diagnostic(layer_outputs, "Which layers return NaN, or only zeros?", True),
    "jacobians": Diagnostic(jacobians, "How do the outputs depend on the inputs?"),
    "signal_propagation": Diagnostic(
        signal_propagation, "Do gradients pass the layers of the backbone?"
    ),
    "minmax_spectrum": Diagnostic(
        minmax_spectrum, "Does the adversarial training converge?", needs_step_memory=True
    ),
    "sharpness": Diagnostic(
        sharpness, "How sharp is the minimum of the label loss?", needs_step_memory=True
    ),
}

RANGES = (
    HealthyRange(
        "features/spread",
        (1e-6, math.inf),
        "Standard deviation of the features; 0 means the same features for every example.",
        "Look for dead units, weights of 0, a learning rate that is too high, or equal inputs.",
        "backbone not learning",
    ),
    HealthyRange(
        "reversal/cosine",
        (-1.001, -MIN_PARALLEL_COSINE),  # -1 up to rounding
        "Direction of the gradient behind the reversal; -1 means reversed, +1 not reversed.",
        "Look for a reversal that is missing or applied twice.",
    ),
    HealthyRange(
        "reversal/ratio",
        _near_strength,
        "Measured strength of the reversal; it should equal the reported strength.",
        "Look for another factor on the loss. If the strength is 0, use a schedule that raises it.",
    ),
    HealthyRange(
        "reversal/head_error",
        (-math.inf, MAX_HEAD_CHANGE),
        "Relative change of the discriminator's gradient by the reversal; 2 means reversed too.",
        "Put the reversal before the discriminator.",
    ),
    HealthyRange(
        "reversal/head_norm",
        (1e-30, math.inf),
        "Norm of the gradient of the discriminator's weights; at 0 it cannot learn.",
        "Make its weights trainable. Let it return one logit, without softmax or sigmoid.",
        "discriminator not learning",
    ),
    HealthyRange(
        "domain/spread",
        (1e-4, math.inf),
        "Standard deviation of the discriminator's output; 0 means one output for all examples.",
        "Let the discriminator return one logit (no softmax or sigmoid). Lower its learning rate.",
        "discriminator not learning",
    ),
    HealthyRange(
        "domain/loss",
        lambda m: (-math.inf, m["probe/loss"] + 0.3),
        "Loss of the discriminator in inference mode; suspicious if far above a new probe's loss.",
        "If it is as high in training (metrics.csv), make the discriminator larger or raise its "
        "learning rate (`dann.optimizers.faster_heads`). Otherwise train longer: the moving "
        "averages of batch normalization lag behind.",
    ),
    HealthyRange(
        "game/growth",
        _below_divergence,
        "Growth of the fastest direction per step; if it is far above 1, training diverges.",
        "Lower the learning rate or the momentum.",
        "unstable",
        (0, -1),
    ),
    HealthyRange(
        "binary/*/pass_rate",
        (0.1, math.inf),
        "Fraction of the gradient that a binary layer passes.",
        "Put batch normalization before the layer, or scale its inputs down to [-1, 1].",
        "saturated binary layer",
    ),
    HealthyRange(
        "target/largest_share",
        # Up to 0.9, or halfway between the largest class proportion of the labels and 1.
        lambda m: (-math.inf, max(0.9, (1 + m.get("label/largest_share", 0.0)) / 2)),
        "Fraction of the target that is predicted as the most frequent class.",
        "If source only predicts one class, too, the shift is too large to align: use "
        "`data.standardize=each`, augmentation or pretrained features. Otherwise add "
        "`regularizer=mcc`.",
        "collapsed",
        (0, -1),
    ),
    HealthyRange(
        "label/loss",
        lambda m: (-math.inf, MAX_LOSS_FRACTION * m["label/prior_entropy"]),
        "Label loss in nats; a model that ignores its inputs exceeds the limit.",
        "Check the labels; train longer.",
        "labels not learned",
        (0, -1),
    ),
    HealthyRange(
        "target/share_distance",
        lambda m: (-math.inf, max(MAX_SHARE_DISTANCE, 2 * m["target/chance_share_distance"])),
        "Distance between the class proportions of the source and those predicted for the target.",
        "Check the predictions of some target examples. If they are wrong, train longer, or add "
        "`regularizer=mcc`. If they are correct, the proportions differ, and aligning whole "
        "domains moves examples into wrong classes.",
        "label shift",
        (0, -1),
    ),
    HealthyRange(
        "probe/accuracy",
        (-math.inf, MAX_ALIGNED_ACCURACY),
        "Accuracy of a new domain probe; 50% means aligned. The verdict uses its 95% interval.",
        "Train longer; without target labels, label some (`dann-evaluate run=... label=50`).",
        strength_changes=(0, 1),
    ),
    HealthyRange(
        "conflict/ratio",
        (0.1, 100),
        "Norm of the backbone's adversarial gradient, relative to the gradient of the label loss.",
        strength_changes=(1, -1),
    ),
    HealthyRange(
        "conflict/cosine",
        (-0.9, 1.0),
        "Cosine of the two gradients; slightly negative is usual, near -1 they cancel.",
        strength_changes=(-1, 0),
    ),
    HealthyRange(
        "jacobian/target_to_source",
        (0.25, 4),
        "Sensitivity of the logits to target inputs, relative to source inputs.",
        "Compare the preprocessing of both domains; augment.",
    ),
    HealthyRange(
        "rank/target/rank_share",
        (0.05, math.inf),
        "Fraction of the feature dimensions that the target uses.",
        "Use fewer features.",
        strength_changes=(-1, 0),
    ),
    HealthyRange(
        "signal/target/gain_range",
        (-math.inf, 1000),
        "Largest gain of a layer divided by the smallest; large if gradients explode or vanish.",
        "Add normalization; look for the layer where `gain` jumps.",
    ),
    HealthyRange(
        "sharpness/top_eigenvalue",
        lambda m: (-math.inf, 2 / m["game/step"]),
        "Largest curvature of the label loss; above the limit, plain gradient descent overshoots.",
        "Lower the learning rate.",
    ),
)
