"""The healthy ranges of measurements, and what values outside mean.

A diagnostic registers its ranges with itself, under `healthy`; see `dann.diagnostics.catalogue`.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dann.diagnostics.catalogue import DIAGNOSTICS, in_order


@dataclasses.dataclass(frozen=True)
class HealthyRange:
    """The values at which a measurement is healthy.

    Args:
        name: Name of the measurement. `*` stands for the name of a layer.
        title: What is measured. `{}` stands for the name of the layer.
        text: What a value means.
        low: Smallest healthy value. Defaults to none.
        high: Largest healthy value. Defaults to none.
        given: Instead of the two, if the range depends on other measurements: takes all of them by
            name and returns the two ends of the range, or `None` if one is missing.
        words: The range in words, for tables. Needed with `given`; defaults to its two ends.
    """

    name: str
    title: str
    text: str
    low: float = -math.inf
    high: float = math.inf
    given: Callable[[Mapping[str, Any]], tuple[float, float] | None] | None = None
    words: str = ""

    def __str__(self) -> str:
        if self.words:
            return f"{self.name} {self.words}"
        if math.isinf(self.low):
            return f"{self.name} at most {self.high:g}"
        if math.isinf(self.high):
            return f"{self.name} at least {self.low:g}"
        return f"{self.name} {self.low:g} to {self.high:g}"

    def bounds(self, measurements: Mapping[str, Any]) -> tuple[float, float] | None:
        """Returns the smallest and the largest healthy value, or `None` if they are not known."""
        return (self.low, self.high) if self.given is None else self.given(measurements)

    def layer_of(self, name: str) -> str | None:
        """Returns the layer in the name of a measurement, or `None` if the range is of another."""
        before, star, after = self.name.partition("*")
        if not star:
            return "" if name == self.name else None
        fits = name.startswith(before) and name.endswith(after)
        return name.removeprefix(before).removesuffix(after) if fits else None


class Evidence(NamedTuple):
    """A measured value beside its healthy range; the bounds may be infinite."""

    name: str
    title: str
    value: float
    low: float
    high: float
    text: str

    @property
    def is_healthy(self) -> bool:
        """Whether the value lies in its range."""
        return self.low <= self.value <= self.high


def healthy_ranges() -> list[HealthyRange]:
    """Returns the ranges that the diagnostics registered, in the diagnostics' order."""
    entries = (DIAGNOSTICS.entry(name) for name in in_order())
    return [one for entry in entries for one in entry.facts.get("healthy", ())]


def evidence(measurements: Mapping[str, Any]) -> list[Evidence]:
    """Returns the measurements that have a healthy range, those outside it first."""
    found = []
    for one in healthy_ranges():
        bounds = one.bounds(measurements)
        for name, value in measurements.items():
            layer = one.layer_of(name)
            if layer is not None and bounds is not None:
                title = one.title.format(layer)
                found.append(Evidence(name, title, float(value), *bounds, one.text))
    return sorted(found, key=lambda each: each.is_healthy)
