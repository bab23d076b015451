"""What the measurements mean, in words."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dann.diagnostics.catalogue import (
    APART,
    BEHIND,
    CONSTANT,
    GROWTH,
    ONE_CLASS,
    PASSED,
    SAME,
    UNLEARNT,
)

RUNAWAY = 1.5  # no direction may grow more in a step, not even the way down from a saddle
# The domains differ if `mmd/squared` is more than this, and more than so many null quantiles.
DIFFERENT, TIMES_NULL = 0.05, 4
ENDLESS = ("game/largest_stable_step", "jacobian/target_to_source")  # may be infinite

VERDICTS = {
    "aligned": "The domains are aligned: a fresh discriminator cannot tell them apart well.",
    "under-adapted": "The domains are still apart, or the labels are not learnt.",
    "collapsed": "The target has collapsed into one class.",
    "backbone dead": "The backbone is dead: its features are the same for every example.",
    "reversal dead": "The gradient reversal is dead: the backbone does not learn to confuse the "
    "discriminator.",
    "discriminator dead": "The discriminator is dead: it does not separate the domains, although "
    "they can be separated.",
    "unstable": "The training is unstable.",
    "saturated binary layer": "A binary layer is saturated: hardly any gradient passes through.",
    "undetermined": "Too little was measured for a verdict.",
}

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


@dataclasses.dataclass(frozen=True)
class Verdict:
    """A name for the state of a model, and why.

    Args:
        name: One of `VERDICTS`.
        reasons: The evidence, a sentence each. The first decided.
    """

    name: str
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([self.name, *(f"- {reason}" for reason in self.reasons)])


def verdict(measurements: Mapping[str, Any]) -> Verdict:
    """Says in words what measurements mean.

    The first of `RULES` that applies decides; a rule does not apply if its measurements are
    missing. If no rule applies, the verdict is "aligned" if there is a `probe/loss`, and otherwise
    "undetermined". `docs/diagnostics.md` states each rule with its thresholds, and
    `docs/diagnostics.md` shows the runs from which these come. A domain loss `l` proves
    a Jensen-Shannon divergence of the features of at least `log 2 - l` nats: .34 for .35. The
    reasons also mention findings that do not decide, such as a strength that has not begun to rise,
    or a live discriminator that is weak or overrun.

    "Aligned" is about the marginal distributions: without target labels nothing can show that each
    class lies where it should.

    Args:
        measurements: The measurements of all diagnostics together.

    Example:

    >>> from dann.diagnostics import verdict
    >>> verdict({"reversal/state": "alive", "probe/loss": 0.07}).name
    'under-adapted'

    Reference:
        - [Ben-David et al., 2010](https://doi.org/10.1007/s10994-009-5152-4), theorem 2, on the use
          of a small distance between the domains.
    """
    m = dict(measurements)
    for rule in RULES:
        name, reasons = rule(m)
        if reasons:
            return Verdict(name, (*reasons, *_remarks(m)))
    if "probe/loss" not in m:
        state = m.get("reversal/state")
        reversal = f"The reversal is {state}. " if state else ""
        reason = (
            f"{reversal}The distance of the domains was not measured; the diagnostic `winning` "
            "measures it."
        )
        return Verdict("undetermined", (reason, *_remarks(m)))
    reason = (
        f"A fresh classifier of the domains loses {m['probe/loss']:.3f} nats on the features; one "
        "that knows nothing loses 0.693."
    )
    return Verdict("aligned", (reason, *_remarks(m)))


def _backbone(m):
    spread = m.get("features/spread", math.inf)
    return "backbone dead", [
        "The features of all examples of both domains are the same, so nothing behind the backbone "
        "can learn. Look for dead units, weights of 0, a learning rate that is too high, inputs "
        "that are all alike."
    ] if spread < SAME else []


def _reversal(m):
    text = FAULTS.get(m.get("reversal/state", ""))
    values = {key: m.get(f"reversal/{key}", math.nan) for key in ("calls", "cosine", "head_error")}
    return "reversal dead", [text.format(**values)] if text else []


def _discriminator(m):
    reasons = []
    if _is_sure(m):
        return "discriminator dead", reasons
    if m.get("reversal/state") == "no gradient":
        reasons.append("The discriminator gives the features no gradient.")
    if m.get("domain/spread", math.inf) < CONSTANT:
        reasons.append("The discriminator gives the same output for every example.")
    if m.get("reversal/head_norm") == 0:
        reasons.append("No weight of the discriminator gets a gradient.")
    return "discriminator dead", reasons


def _is_sure(m):
    """Returns whether the discriminator gives no gradient because it is right and certain."""
    return m.get("reversal/state") == "no gradient" and m.get("domain/loss", 1.0) < APART


def _not_finite(m):
    broken = [
        name
        for name, value in m.items()
        if not isinstance(value, str)
        and not (name in ENDLESS and value == math.inf)
        and not np.all(np.isfinite(np.asarray(value, float)))
    ]
    if m.get("reversal/state") == "not finite" and not broken:
        broken = ["a gradient"]
    return "unstable", [f"Not finite: {', '.join(broken)}."] if broken else []


def _unstable(m):
    growth, step = m.get("game/growth", 0.0), m.get("game/step", 0.0)
    push = step * max(-m.get("game/least_real", 0.0), 0.0)
    if growth <= max(GROWTH, min(1 + push + math.sqrt(push + push**2), RUNAWAY)):
        return "unstable", []
    return "unstable", [
        f"A step of {step:.3g}, with momentum, multiplies a direction by {growth:.3g}: the "
        "players run away from the equilibrium. Lower the learning rate or the momentum."
    ]


def _saturated(m):
    layers = {
        name.removeprefix("binary/").removesuffix("/passed"): value
        for name, value in m.items()
        if name.startswith("binary/") and name.endswith("/passed") and value < PASSED
    }
    return "saturated binary layer", [
        f"Layer `{name}` passes {share:.1%} of its gradient, below {PASSED:.0%}."
        for name, share in layers.items()
    ]


def _collapsed(m):
    share, labels = m.get("target/largest_share", 0.0), m.get("label/largest_share", 1.0)
    near = m.get("probe/matched_loss", 0.0) >= APART
    if share < max(ONE_CLASS, (1 + labels) / 2) or not near:
        return "collapsed", []
    return "collapsed", [
        f"{share:.0%} of the target is predicted as one class and lies among the source's examples "
        f"of that class; the largest class has {labels:.0%} of the source's labels."
    ]


def _under_adapted(m):
    reasons = []
    for name, who in (("probe/loss", "A fresh classifier"), ("domain/loss", "The discriminator")):
        if m.get(name, 1.0) < APART:
            reasons.append(
                f"{who} separates the domains by the features, with a loss of {m[name]:.3f} "
                "nats; one that knows nothing has 0.693."
            )
    if _differ(m, "squared", "null") and _differ(m, "matched", "matched_null"):
        reasons.append(
            f"The features' discrepancy of {m['mmd/squared']:.3f}, where chance gives "
            f"{m['mmd/null']:.3f}, says that the domains differ, perhaps not linearly; "
            "`probe='mlp'` may see it."
        )
    loss, prior = m.get("label/loss"), m.get("label/prior_entropy")
    if loss is not None and prior is not None and loss >= UNLEARNT * prior > 0:
        reasons.append(
            f"The label loss of {loss:.3f} is hardly below {prior:.3f}, the loss of a model that "
            "knows only the classes' shares."
        )
    return "under-adapted", reasons


def _differ(m, measured, null):
    chance = m.get(f"mmd/{null}", math.inf)
    return m.get(f"mmd/{measured}", 0.0) > max(TIMES_NULL * chance, DIFFERENT)


def _remarks(m):
    remarks = []
    if m.get("reversal/state") == "not begun":
        remarks.append("The strength is still 0; its schedule rises later.")
    if _is_sure(m):
        remarks.append(
            f"The discriminator is right with a loss of {m['domain/loss']:.1g} nats, and so "
            "certain that the features get no gradient."
        )
    if m.get("reversal/state") == "wrong strength":
        remarks.append(
            f"The gradient is reversed with strength {m['reversal/ratio']:.3g}, but the reversal "
            f"reports {m['reversal/strength']:.3g}."
        )
    live, fresh = m.get("domain/loss"), m.get("probe/loss")
    if live is not None and fresh is not None and live - fresh > BEHIND:
        remarks.append(
            f"The loss of the live discriminator is {live - fresh:.2f} nats above a fresh one's: "
            "it is weak or overrun."
        )
    if _differ(m, "squared", "null") and not _differ(m, "matched", "matched_null"):
        remarks.append(
            f"The features' discrepancy of {m['mmd/squared']:.3f}, where chance gives "
            f"{m['mmd/null']:.3f}, comes from other shares of the classes in the target."
        )
    entropy, classes = m.get("target/conditional_entropy"), m.get("label/log_classes")
    if entropy is not None and classes and entropy > classes / 2:
        remarks.append("The target is predicted with little certainty.")
    return remarks


RULES = (
    _not_finite,
    _backbone,
    _reversal,
    _discriminator,
    _unstable,
    _saturated,
    _collapsed,
    _under_adapted,
)
