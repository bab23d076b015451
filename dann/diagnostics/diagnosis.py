"""What was measured of a model and what it means."""

import dataclasses
import json
import math
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """A verdict, and the measurements that it rests on.

    Args:
        verdict: The verdict's name.
        reasons: Why, a sentence each.
        measurements: Values by name, numbers or arrays.
        left_out: Diagnostics that do not fit the model, and why.
        about: What was measured, by name: method, source, target, step, ...
    """

    verdict: str
    reasons: tuple[str, ...]
    measurements: Mapping[str, Any]
    left_out: Mapping[str, str] = dataclasses.field(default_factory=dict)
    about: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def to_json(self) -> str:
        """Returns it as JSON; numbers that are not finite become `null`."""
        return json.dumps(_plain(dataclasses.asdict(self)), indent=2, allow_nan=False) + "\n"


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
