"""Derives a verdict in words from the measurements of a model."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np

from dann.data.probes import MAX_ALIGNED_ACCURACY, name_alignment
from dann.diagnostics.evidence import (
    STRENGTH_ADVICE,
    can_trust_shares,
    choose_strength_change,
    domains_differ,
    evidence,
    is_separated,
)

# MMD up to which a separation is small, relative to the features' standard deviation.
_MAX_NEGLIGIBLE_MMD = 0.02

# Headlines by verdict. If several verdicts apply, the first one is reported.
VERDICTS = {
    "diverged": "Not finite: some numbers are NaN or infinite, as after training has diverged.",
    "backbone not learning": "Backbone not learning: its features or its weights are constant.",
    "broken reversal": "Broken reversal: the backbone does not learn to confuse the discriminator.",
    "all outputs reversed": "All outputs reversed: the gradient of every output is reversed.",
    "discriminator not learning": "Discriminator not learning: it cannot separate the domains.",
    "unstable": "Unstable: the adversarial training moves away from its equilibrium.",
    "saturated binary layer": "Saturated binary layer: hardly any gradient passes through.",
    "labels not learned": "Labels not learned: the model only predicts the class proportions.",
    "oracle": "Oracle: the model trains on target labels, so there is nothing to adapt.",
    "source only": "Source only: nothing adapts.",
    "collapsed": "Collapsed: nearly all target examples are predicted as one class.",
    "label shift": "Label shift, or classification errors: the predicted class proportions differ.",
    "not aligned": "Not aligned: the features differ.",
    "partly aligned": "Partly aligned: the features still differ.",
    "aligned": "Aligned: the features hardly differ.",
    "dead units": "Dead units: most units of a layer return 0 for every example.",
    "reversal working": "Reversal working: the gradient is reversed. Domains were not compared.",
    "undetermined": "Undetermined: there are too few measurements for a verdict.",
}
_ON_ALIGNMENT = "source only", "not aligned", "partly aligned", "aligned"


class Finding(NamedTuple):
    """An argument for a verdict.

    Args:
        verdict: The verdict that follows; `None` if none does.
        reason: A sentence. For a state of a reversal it has placeholders for measurements.
        advice: What to do.
    """

    verdict: str | None
    reason: str
    advice: str = ""


_PLACE = "Put exactly one reversal of positive strength between the features and the discriminator."
_FAULTS = {
    "not applied": "Nothing reverses the gradient between the discriminator and the features.",
    "applied twice": "The gradient passes through two reversals, which cancel.",
    "wrong sign": "The reversal does not change the sign of the gradient (cosine {cosine:+.2f}).",
    "changes values": "The outputs of the reversal differ from its inputs.",
    "discriminator reversed": "The discriminator's gradient changes, too (by {head_error:.0%}).",
    "behind the discriminator": "No trainable weight is between the reversal and the output.",
    "within the discriminator": "Some weights before the reversal belong to the discriminator.",
    "strength 0": "The strength of the reversal is 0, and no known schedule raises it.",
    "detached": "No gradient reaches weights before the reversal. Look for `stop_gradient`.",
    "partly reversed": "Only a part of the gradient is reversed (cosine {cosine:+.2f}).",
}
# The finding of each value of `reversal/state`.
STATES = {
    state: Finding("broken reversal", reason, _PLACE) for state, reason in _FAULTS.items()
} | {
    "not finite": Finding("diverged", "A weight or a gradient is not finite."),
    "backbone frozen": Finding(
        "backbone not learning",
        "The backbone has no trainable weight.",
        "Set `trainable = True` on some layers of the backbone.",
    ),
    "every output": Finding(
        "all outputs reversed",
        "All outputs of the model come from the reversal.",
        "If one of them predicts the labels, compute it from the features before the reversal.",
    ),
    "no gradient": Finding(
        "discriminator not learning",
        "The discriminator returns no gradient to the features.",
        "Let the discriminator return one logit, without softmax or sigmoid.",
    ),
    "unknown": Finding(
        None,
        "The reversal cannot be measured here.",
        "Make the reversal a layer of a functional model with floating-point inputs.",
    ),
    "not found": Finding(
        "undetermined",
        "The model has no `GradientReversal`.",
        "Pass the name of your reversal layer as `layer=`. The model must be functional.",
    ),
    "working": Finding(None, "The reversal works."),
    "wrong strength": Finding(None, "The reversal has another strength than expected."),
    "not started": Finding(None, "The strength is still 0. Its schedule raises it later."),
    "oracle": Finding(
        "oracle", "The model trains on target labels.", "Use it as a reference for other methods."
    ),
    "none": Finding(
        "source only",
        "The method has no adversary and no regularizer.",
        "Train a method that adapts, such as `DANN`.",
    ),
    "no adversary": Finding(None, "The method has no adversary. Other losses adapt the model."),
}

_ADVICE = {
    "aligned": "Use {measure} to estimate whether the classes are also aligned.",
    "partly aligned": "Compare runs by a score of `dann.selection`, or train longer.",
    "not aligned": "Train longer, and compare with source only (`dann-evaluate run=... label=50` "
    "without target labels).",
    "reversal working": "Run the other diagnostics of `dann.diagnostics` on both domains.",
    "undetermined": "Pass at least 100 examples of each domain.",
}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """A name for the state of a model, with the reasons.

    Args:
        name: One of `VERDICTS`.
        headline: The verdict in a sentence, with its number.
        reasons: The evidence, one sentence each; the decisive reason comes first.
        advice: What to do.
    """

    name: str
    headline: str
    reasons: tuple[str, ...]
    advice: str

    def __str__(self) -> str:
        reasons = [f"- {reason}" for reason in self.reasons]
        lines = [self.headline, *reasons, f"What to do: {self.advice}"]
        return "\n".join(fill(line, 100, subsequent_indent="  ") for line in lines)


def verdict(measurements: Mapping[str, Any]) -> Verdict:
    """Derives a verdict from measurements.

    Each measurement outside its healthy range, each state of a reversal and the accuracy of the
    probe may imply a verdict. The first verdict in the order of `VERDICTS` is returned, and the
    reasons also list all other findings. Missing measurements imply no verdict.

    The alignment of the domains follows from the 95% interval of the accuracy of a new probe on
    held-out examples, where chance is 50%:

    - "aligned": the interval ends at or below 67%
    - "not aligned": the interval begins at or above 85%, and the discrepancy of the features is
      above 0.02; or the loss of the discriminator is below 0.35 nats; or the discrepancy is above
      0.05 and 4 times its null quantile, also with matched class proportions
    - "partly aligned": the interval begins above 50%
    - "undetermined": the interval contains 50% and is too wide
    - "reversal working": the domains were not compared, as for a custom model

    "Label shift" requires reliable predictions of the class proportions. Wrong predictions are
    mostly uncertain, so without the least confident quarter of the target the proportions must get
    at most 10% closer to the proportions of the source. In addition, the loss of the discriminator
    must be below 1 nat, and the discrepancy with matched class proportions below the limit above.

    "Aligned" refers to whole domains: without target labels, no measurement can show that each
    class of the target is aligned with the same class of the source.

    Args:
        measurements: The measurements of all diagnostics together. With `target/accuracy` or
            `target/mae`, the verdict is the same, but "aligned" advises to use these results.

    Example:

    >>> from dann.diagnostics.verdict import verdict
    >>> measurements = {"probe/accuracy": 0.78, "probe/low": 0.74, "probe/high": 0.82}
    >>> verdict(measurements).name
    'partly aligned'

    Reference:
        - [Ben-David et al., 2010](https://doi.org/10.1007/s10994-009-5152-4), theorem 2, on the use
          of a small distance between the domains.
    """
    rules = _check_outputs, _check_reversal, _check_ranges, _check_probe, _check_discrepancy
    findings = [finding for rule in rules for finding in rule(measurements)]
    order = list(VERDICTS)
    name = min((finding.verdict for finding in findings if finding.verdict), key=order.index)
    findings.sort(key=lambda finding: finding.verdict != name)
    headline = VERDICTS[name]
    if name in _ON_ALIGNMENT and "probe/accuracy" in measurements:
        accuracy = measurements["probe/accuracy"]
        headline += f" A new domain probe has an accuracy of {accuracy:.0%} (chance 50%)."
    if name == "label shift":
        headline += f" Their distance is {100 * measurements['target/share_distance']:.0f} points."
    reasons = tuple(finding.reason for finding in findings)
    return Verdict(name, headline, reasons, findings[0].advice)


def _check_outputs(m) -> Iterator[Finding]:
    """Yields findings on numbers that are not finite, and on dead units."""
    numbers = {k: v for k, v in m.items() if not isinstance(v, str)}
    names = [k for k, v in numbers.items() if not np.isfinite(np.asarray(v, float)).all()]
    if names:
        advice = "Lower the learning rate, clip gradients, or find the first NaN in metrics.csv."
        yield Finding("diverged", f"Not finite: {', '.join(names)}.", advice)
    if layer := m.get("layers/not_finite"):
        reason = f"The first layer whose outputs are NaN or infinite is {layer!r}."
        yield Finding("diverged", reason, f"Check the inputs and the weights of {layer!r}.")
    if units := m.get("layers/dead_units"):
        reason = f"Units that return 0 for every example: {units}."
        yield Finding("dead units", reason, "Lower the learning rate, or use `leaky_relu`.")


def _check_reversal(m) -> Iterator[Finding]:
    if "reversal/state" not in m:
        return
    implied, reason, advice = STATES[m["reversal/state"]]
    if _is_saturated(m):
        implied, reason = None, "The discriminator is so confident that its gradient vanishes."
        advice = "Smooth its labels (`method=els`), or make it smaller."
    values = {key: m.get(f"reversal/{key}", math.nan) for key in ("cosine", "head_error")}
    reason = reason.format(**values)
    if "reversal/outputs" in m:
        reason += f" Reversed outputs: {m['reversal/outputs']}. "
        reason += f"Other outputs: {m['reversal/other_outputs'] or 'none'}."
    yield Finding(implied, reason, advice)


def _is_saturated(m):
    """Returns whether the discriminator has no gradient because it is correct and confident."""
    return m.get("reversal/state") == "no gradient" and is_separated(m)


def _check_ranges(m) -> Iterator[Finding]:
    excluded = ["discriminator not learning"] if _is_saturated(m) else []
    excluded += [] if can_trust_shares(m) else ["label shift"]
    for row in evidence(m):
        # The headline contains the accuracy of the probe.
        if row.is_healthy or not math.isfinite(row.value) or row.name == "probe/accuracy":
            continue
        implied = None if row.range.verdict in excluded else row.range.verdict
        strength_advice = "" if row.range.advice else row.advice
        limit = f"at most {row.high:.3g}" if row.value > row.high else f"at least {row.low:.3g}"
        reason = f"`{row.name}` is {row.value:.3g} (healthy: {limit}). {row.range.meaning} "
        yield Finding(implied, (reason + strength_advice).rstrip(), row.advice)


def _check_probe(m) -> Iterator[Finding]:
    low, high = m.get("probe/low"), m.get("probe/high")
    if low is None or high is None:
        name = "reversal working" if m.get("reversal/state") == "working" else "undetermined"
        reason = "The distance of the domains was not measured by `discriminator_vs_probe`."
        yield Finding(name, reason, _ADVICE[name])
        return
    name = name_alignment(low, high)
    if name == "not aligned" and m.get("mmd/squared", math.inf) <= _MAX_NEGLIGIBLE_MMD:
        name = "partly aligned"
    reason = f"The 95% interval of the accuracy of the new probe is {low:.0%} to {high:.0%}."
    yield Finding(name, reason, _advise_alignment(name, m))


def _advise_alignment(name, m):
    can_raise = name == "not aligned" and choose_strength_change(evidence(m), m) == 1
    has_labels = "target/accuracy" in m or "target/mae" in m
    measure = "the test results on the target" if has_labels else "a score of `dann.selection`"
    return _ADVICE[name].format(measure=measure) + (STRENGTH_ADVICE[1, 1] if can_raise else "")


def _check_discrepancy(m) -> Iterator[Finding]:
    """Yields findings on differences that a linear probe may miss."""
    if is_separated(m):
        reason = f"The discriminator separates the domains, with loss {m['domain/loss']:.2g}."
        yield Finding("not aligned", reason, _advise_alignment("not aligned", m))
    if not domains_differ(m, "squared", "null"):
        return
    reason = f"The discrepancy of the features is {m['mmd/squared']:.3f} (by chance up to "
    reason += f"{m['mmd/null']:.3f})."
    if not domains_differ(m, "matched", "matched_null"):
        if m.get("mmd/matched", math.inf) < m["mmd/squared"] / 2:
            reason += " Different class proportions or wrong predictions may explain it."
            yield Finding(None, reason)
    elif m.get("probe/high", 0.0) <= MAX_ALIGNED_ACCURACY:
        reason += " A linear probe does not detect it."
        yield Finding("not aligned", reason, "Try `probe='mlp'`.")
