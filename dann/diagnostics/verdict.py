"""What the measurements mean, in words."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from textwrap import fill
from typing import Any

import numpy as np

from dann.diagnostics.catalogue import ALIGNED, APART, evidence

_SURE = 0.35  # domain loss in nats below which the live discriminator separates the domains
_LOST = 1.0  # the same above which the players have not settled; chance is .69
# The domains differ if `mmd/squared` is more than this, and more than so many null quantiles.
_DIFFERENT, _TIMES_NULL = 0.05, 4
_SLIGHT = 0.02  # discrepancy up to which what a probe sees is small beside the features' spread
_ENDLESS = ("game/largest_stable_step", "jacobian/target_to_source")  # may be infinite

# The first that something speaks for is the verdict.
VERDICTS = {
    "diverged": "Diverged: something is not finite.",
    "backbone dead": "Backbone dead: nothing behind it can learn or align.",
    "reversal dead": "Reversal dead: the backbone does not learn to confuse the discriminator.",
    "reversal everywhere": "Reversal everywhere: it turns the gradient of every output.",
    "discriminator dead": "Discriminator dead: it does not learn to tell the domains apart.",
    "unstable": "Unstable: the players run away from each other.",
    "saturated binary layer": "Saturated binary layer: hardly any gradient passes through.",
    "labels not learned": "Labels not learned: the model hardly knows more than the classes' shares.",
    "oracle": "Oracle: it learns from the target's labels, so there is nothing to adapt.",
    "source only": "Source only: nothing adapts; a fresh probe tells {} of examples apart (50% "
    "would be aligned).",
    "collapsed": "Collapsed: nearly all of the target is predicted as one class.",
    "label shift": "Label shift: the target seems to have other shares of the classes.",
    "not aligned": "Not aligned: a fresh probe tells {} of examples apart (50% would be aligned).",
    "partly aligned": "Partly aligned: a fresh probe still tells {} of examples apart (50% would "
    "be aligned).",
    "aligned": "Aligned: a fresh probe tells only {} of examples apart (50% is chance).",
    "reversal alive": "Reversal alive: the gradient is reversed; nothing else was measured.",
    "undetermined": "Undetermined: too little was measured for a verdict.",
}

_PLACE = "One reversal of positive strength must lie between features and discriminator."
_FAULTS = {
    "not applied": "Nothing reverses the gradient between the discriminator and the features.",
    "applied twice": "The gradient is reversed and reversed back, by {calls:.0f} calls.",
    "wrong sign": "The reversal does not change the gradient's sign (cosine {cosine:+.2f}).",
    "changes values": "The reversal does not return its inputs.",
    "discriminator reversed": "It changes the discriminator's own gradient, by {head_error:.2g}.",
    "behind the discriminator": "No trainable weight lies between the reversal and the output.",
    "within the discriminator": "Trainable weights before the reversal serve the domains alone.",
    "not reached": "No output of the model comes from the reversal.",
    "strength 0": "The strength of the reversal is 0, and no known schedule raises it.",
    "detached": "Something stops the gradient on its way to the features, such as a `stop_gradient`, or "
    "no trainable weight lies there.",
    "partly reversed": "Only a part of the gradient is reversed (cosine {cosine:+.2f}).",
}
STATES = {state: ("reversal dead", text, _PLACE) for state, text in _FAULTS.items()} | {
    "not finite": ("diverged", "A gradient is not finite.", "Lower the learning rate."),
    "backbone frozen": (
        "backbone dead",
        "No trainable weight is before the reversal.",
        "Make some trainable.",
    ),
    "discriminator frozen": (
        "discriminator dead",
        "No weight behind the reversal is trainable.",
        "Make some trainable.",
    ),
    "every output": (
        "reversal everywhere",
        "All outputs of the model come from the reversal.",
        "If labels are among them, take these from the features before the reversal.",
    ),
    "no gradient": (
        "discriminator dead",
        "The discriminator gives the features no gradient.",
        "End it in one logit, without softmax or sigmoid.",
    ),
    "unknown": (
        None,
        "It cannot be told whether the gradient is reversed.",
        "Make the reversal a layer of a functional model, and name it by `layer=`.",
    ),
    "not started": (None, "The strength is still 0; its schedule rises later.", ""),
    "oracle": (
        "oracle",
        "The labels that it trains on are the target's.",
        "Compare other methods with it: it is about the best that they can reach.",
    ),
    "none": (
        "source only",
        "The method has no adversary and no regularizer.",
        "Train a method that adapts, such as `DANN`.",
    ),
}

_ADVICE = {
    "aligned": "A score of `dann.selection` estimates whether each class lies where it should.",
    "partly aligned": "This may be enough: compare runs by a score of `dann.selection`. To align "
    "further, train longer or raise the strength.",
    "not aligned": "Keep source only if its InfoMax is higher; else train longer or raise the "
    "strength; if the live discriminator's loss is far "
    "above a fresh one's, make it larger or let it learn faster (`dann.optimizers.faster_heads`).",
    "reversal alive": "Compare the features of both domains: see `dann.diagnostics`.",
    "undetermined": "Give both domains, and some hundred examples of each.",
}

Finding = tuple[str | None, str, str]  # the verdict that follows, if any, why, and what to do


@dataclasses.dataclass(frozen=True)
class Verdict:
    """A name for the state of a model, and why.

    Args:
        name: One of `VERDICTS`.
        headline: The same in a sentence, with its number.
        reasons: The evidence, a sentence each, what decided first.
        advice: What to do.
    """

    name: str
    headline: str
    reasons: tuple[str, ...]
    advice: str

    def __str__(self) -> str:
        lines = [f"- {reason}" for reason in self.reasons]
        lines = [self.headline, *lines, f"What to do: {self.advice}"]
        return "\n".join(fill(line, 100, subsequent_indent="  ") for line in lines)


def verdict(measurements: Mapping[str, Any]) -> Verdict:
    """Says in words what measurements mean.

    Each measurement outside its healthy range, each state of a reversal and the probe's accuracy
    may speak for a verdict; the first in the order of `VERDICTS` is taken. What is missing says
    nothing. All else that was found is among the reasons.

    How well the domains are aligned follows from the 95% interval of the accuracy of a fresh probe
    on held-out examples, of which chance is 50%:

    - "aligned": it ends below 67%
    - "not aligned": it begins above 85%, and the features' discrepancy is above .02; or the live
      discriminator's loss is below .35 nats; or that discrepancy is above .05 and 4 times what
      chance gives, also with the classes' shares matched
    - "partly aligned": it lies above 50%
    - "undetermined": it holds 50%, but is too wide
    - "reversal alive": nothing else was measured, as of a model from elsewhere

    "Label shift" is said only if the predicted shares of the classes can be trusted: without the
    least sure quarter of the target they come at most a tenth nearer to the source's, because wrong
    predictions are mostly unsure; the live discriminator's loss is below 1 nat; and the discrepancy
    with the shares matched is not as large as above. "Aligned" is about the domains as wholes:
    without target labels nothing can show that each class lies where it should.

    Args:
        measurements: The measurements of all diagnostics together.

    Example:

    >>> from dann.diagnostics import verdict
    >>> found = {"probe/accuracy": 0.78, "probe/low": 0.74, "probe/high": 0.82}
    >>> verdict(found).headline
    'Partly aligned: a fresh probe still tells 78% of examples apart (50% would be aligned).'

    Reference:
        - [Ben-David et al., 2010](https://doi.org/10.1007/s10994-009-5152-4), theorem 2, on the use
          of a small distance between the domains.
    """
    rules = _not_finite, _reversal, _out_of_range, _level, _unseen_by_probe
    found = [one for rule in rules for one in rule(measurements)]
    name = min((one for one, _, _ in found if one), key=list(VERDICTS).index)
    ordered = sorted(found, key=lambda one: one[0] != name)
    headline = VERDICTS[name].format(f"{measurements.get('probe/accuracy', math.nan):.0%}")
    return Verdict(name, headline, tuple(reason for _, reason, _ in ordered), ordered[0][2])


def _not_finite(m) -> Iterator[Finding]:
    endless = [name for name in _ENDLESS if m.get(name) == math.inf]
    numbers = {k: v for k, v in m.items() if not isinstance(v, str) and k not in endless}
    broken = [k for k, v in numbers.items() if not np.isfinite(np.asarray(v, float)).all()]
    if broken:
        told = "Lower the learning rate; clip gradients; look at the first epoch of `metrics.csv`."
        yield "diverged", f"Not finite: {', '.join(broken)}.", told


def _reversal(m) -> Iterator[Finding]:
    state = m.get("reversal/state")
    name, text, advice = STATES.get(state, (None, f"The reversal is {state}.", ""))
    if _is_sure(m):
        name, text = None, "The discriminator is so certain that the features get no gradient."
        advice = "Smooth its labels (`method=els`), or give it fewer units."
    if state is not None:
        keys = ("calls", "cosine", "head_error")
        values = {key: m.get(f"reversal/{key}", math.nan) for key in keys}
        text = text.format(**values)
        if "reversal/outputs" in m:
            others = m["reversal/other_outputs"] or "none"
            text += f" Outputs that come from it: {m['reversal/outputs']}; that do not: {others}."
        yield name, text, advice


def _is_sure(m):
    """Whether the discriminator gives no gradient because it is right and certain."""
    return m.get("reversal/state") == "no gradient" and m.get("domain/loss", 1.0) < _SURE


def _out_of_range(m) -> Iterator[Finding]:
    excused = ["discriminator dead"] if _is_sure(m) else []
    excused += [] if _trusts_shares(m) else ["label shift"]
    for one in evidence(m):
        # The probe's accuracy is in the headline.
        if one.is_healthy or not math.isfinite(one.value) or one.name == "probe/accuracy":
            continue
        name = None if one.range.verdict in excused else one.range.verdict
        yield name, f"`{one.name}` is {one.value:.3g}. {one.range.meaning}", one.range.advice


def _trusts_shares(m):
    """Whether the predicted shares of the classes are likely to be the target's."""
    sure, every = (m.get(f"target/{name}share_distance", 0.0) for name in ("confident_", ""))
    settled = m.get("domain/loss", 0.0) < _LOST and not _differ(m, "matched", "matched_null")
    return settled and sure >= 0.9 * every


def _level(m) -> Iterator[Finding]:
    low, high = m.get("probe/low"), m.get("probe/high")
    told = "The distance of the domains was not measured; `discriminator_vs_probe` measures it."
    name = "reversal alive" if m.get("reversal/state") == "alive" else "undetermined"
    if low is not None and high is not None:
        told = f"The 95% interval of the fresh probe's accuracy is {low:.0%} to {high:.0%}."
        if high <= ALIGNED:
            name = "aligned"
        elif low >= APART and m.get("mmd/squared", math.inf) > _SLIGHT:
            name = "not aligned"
        elif low > 0.5:
            name = "partly aligned"
        else:
            name = "undetermined"
    yield name, told, _ADVICE[name]


def _unseen_by_probe(m) -> Iterator[Finding]:
    if m.get("domain/loss", 1.0) < _SURE:
        told = f"The live discriminator separates the domains: its loss is {m['domain/loss']:.2g}."
        yield "not aligned", told, _ADVICE["not aligned"]
    if not _differ(m, "squared", "null"):
        return
    told = f"The features' discrepancy is {m['mmd/squared']:.3f}; chance gives {m['mmd/null']:.3f}."
    if not _differ(m, "matched", "matched_null"):
        if m.get("mmd/matched", math.inf) < m["mmd/squared"] / 2:
            why = "It may come from the classes' shares, or from wrong predictions."
            yield None, f"{told} {why}", ""
    elif m.get("probe/high", 0.0) <= ALIGNED:
        yield "not aligned", f"{told} A linear probe does not see it.", "Try `probe='mlp'`."


def _differ(m, measured, null):
    chance = m.get(f"mmd/{null}", math.inf)
    return m.get(f"mmd/{measured}", 0.0) > max(_TIMES_NULL * chance, _DIFFERENT)
