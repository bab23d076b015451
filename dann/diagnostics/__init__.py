"""Measurements of a model: does the reversal work, which player is winning, and many more."""

from typing import TYPE_CHECKING, Any

from dann.diagnostics.catalogue import DIAGNOSTICS, measure
from dann.diagnostics.check import Diagnosis, check
from dann.diagnostics.diagnostics_callback import Diagnostics
from dann.diagnostics.feature_distance import squared_mmd
from dann.diagnostics.healthy_ranges import HealthyRange
from dann.diagnostics.instruments.probe import proxy_a_distance
from dann.diagnostics.verdict import Verdict, verdict
from dann.registry import import_modules

import_modules(__name__)
_functions = {function.__name__: function for function in DIAGNOSTICS.values()}
globals().update(_functions)

if TYPE_CHECKING:  # functions that are called like their files
    from dann.diagnostics.feature_distance import feature_distance as feature_distance
    from dann.diagnostics.game import game as game
    from dann.diagnostics.jacobians import jacobians as jacobians
    from dann.diagnostics.label_bounds import label_bounds as label_bounds
    from dann.diagnostics.sharpness import sharpness as sharpness
    from dann.diagnostics.signal_propagation import signal_propagation as signal_propagation
    from dann.diagnostics.straight_through_health import (
        straight_through_health as straight_through_health,
    )

    def __getattr__(name: str) -> Any: ...


__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    "DIAGNOSTICS",
    "Diagnosis",
    "Diagnostics",
    "HealthyRange",
    "Verdict",
    "check",
    "measure",
    "proxy_a_distance",
    "squared_mmd",
    "verdict",
    *_functions,
]
