"""What was measured of a model and what it means."""

import dataclasses
import json
import math
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from dann.diagnostics.verdict import Verdict


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """What was measured of a model, and the verdict on it; as a string, a line each.

    Args:
        verdict: What the measurements mean.
        measurements: Values by name, numbers, words or arrays.
        left_out: Diagnostics that do not fit the model, and why.
        about: What was measured, by name: method, source, target, step, ...
    """

    verdict: Verdict
    measurements: Mapping[str, Any]
    left_out: Mapping[str, str] = dataclasses.field(default_factory=dict)
    about: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        width = max((len(name) for name in self.measurements), default=0)
        lines = [f"{name:<{width}}  {_shown(value)}" for name, value in self.measurements.items()]
        return "\n".join([str(self.verdict), "", *lines])

    def to_json(self) -> str:
        """Returns it as JSON; numbers that are not finite become `null`."""
        verdict = {"verdict": self.verdict.name, "reasons": self.verdict.reasons}
        content = _plain({**vars(self), **verdict})
        return json.dumps(content, indent=2, allow_nan=False) + "\n"


def _shown(value):
    if isinstance(value, str):
        return value
    if np.ndim(value):
        return np.array2string(np.asarray(value), precision=3, threshold=8)
    return f"{value:.4g}"


def _plain(value):
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, pathlib.Path):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
