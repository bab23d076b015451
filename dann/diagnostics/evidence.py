"""Measurements beside their healthy ranges, and one direction of advice on the strength."""

import fnmatch
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dann.diagnostics.catalogue import RANGES, HealthyRange

_MAX_SETTLED_LOSS = 1.0  # domain loss in nats above which training has not settled; chance is 0.69
_MAX_SEPARATED_LOSS = 0.35  # domain loss in nats below which the domains are separated
# The domains differ if `mmd/squared` exceeds this value and this multiple of its null quantile.
_MIN_MMD, _NULL_FACTOR = 0.05, 4
# By the change that a value suggests, and the change that is advised.
STRENGTH_ADVICE = {
    (-1, -1): " Lower the strength, or raise it later (`WarmStart`) or more slowly.",
    (1, 1): " You can also raise the strength.",
    (1, -1): " A higher strength would improve this value, but others require a lower one.",
}


class Evidence(NamedTuple):
    """A measured value, its healthy range, and the advice if the value is outside."""

    name: str
    value: float
    low: float
    high: float
    range: HealthyRange
    advice: str = ""

    @property
    def is_healthy(self) -> bool:
        """True if the value is in its range."""
        return self.low <= self.value <= self.high

    @property
    def strength_change(self) -> int:
        """The change of the strength that the value suggests, 0 if it is in its range."""
        return 0 if self.is_healthy else self.range.strength_changes[self.value > self.high]


def evidence(measurements: Mapping[str, Any]) -> list[Evidence]:
    """Returns the measurements that have a healthy range, the unhealthy ones first.

    All advice on the strength has the direction of `choose_strength_change`.
    """
    rows = []
    for healthy in RANGES:
        for name in fnmatch.filter(measurements, healthy.name):
            try:
                bounds = healthy.bounds
                low, high = bounds(measurements) if callable(bounds) else bounds
            except KeyError:  # the bounds depend on a measurement that is missing
                continue
            rows.append(Evidence(name, float(measurements[name]), low, high, healthy))
    change = choose_strength_change(rows, measurements)
    for number, row in enumerate(rows):
        if not row.is_healthy:
            clause = STRENGTH_ADVICE.get((row.strength_change, change), "")
            rows[number] = row._replace(advice=(row.range.advice + clause).strip())
    return sorted(rows, key=lambda row: row.is_healthy)


def choose_strength_change(rows: Sequence[Evidence], measurements: Mapping[str, Any]) -> int:
    """Returns -1 if the strength may only be lowered, 1 if only raised, otherwise 0.

    It is 0 without a strength or if a value is not finite.

    Values may suggest both, such as classes that are lost before the domains are aligned. A higher
    strength would then do more harm. But a strength of 0 can only be raised. Class proportions
    that are predicted wrongly do not count, nor does a collapse if the discriminator separates the
    domains, because alignment cannot have caused it.
    """
    is_finite = all(math.isfinite(row.value) for row in rows)
    if not is_finite or measurements.get("reversal/state") in ("none", "no adversary", "oracle"):
        return 0
    excluded = [] if can_trust_shares(measurements) else ["label shift"]
    excluded += ["collapsed"] if is_separated(measurements) else []
    is_high = any(row.strength_change < 0 and row.range.verdict not in excluded for row in rows)
    return -1 if is_high and measurements.get("reversal/strength") != 0 else 1


def can_trust_shares(m: Mapping[str, Any]) -> bool:
    """Returns whether the predicted class proportions of the target are likely correct."""
    confident = m.get("target/confident_share_distance", 0.0)
    is_settled = m.get("domain/loss", 0.0) < _MAX_SETTLED_LOSS
    matches = not domains_differ(m, "matched", "matched_null")
    return is_settled and matches and confident >= 0.9 * m.get("target/share_distance", 0.0)


def is_separated(m: Mapping[str, Any]) -> bool:
    """Returns whether the discriminator separates the domains."""
    return m.get("domain/loss", 1.0) < _MAX_SEPARATED_LOSS


def domains_differ(m: Mapping[str, Any], measured: str, null: str) -> bool:
    """Returns whether `mmd/<measured>` is clearly above its quantile `mmd/<null>` by chance."""
    chance = m.get(f"mmd/{null}", math.inf)
    return m.get(f"mmd/{measured}", 0.0) > max(_NULL_FACTOR * chance, _MIN_MMD)
