"""Is the reversal alive, who is winning, what do the Jacobians say: measurements of a model."""

from dann.diagnostics.callback import Diagnostics
from dann.diagnostics.catalogue import DIAGNOSTICS, measure
from dann.diagnostics.certificate import reversal_certificate
from dann.diagnostics.check import check
from dann.diagnostics.conflict import gradient_conflict
from dann.diagnostics.diagnosis import Diagnosis
from dann.diagnostics.feature_distance import feature_distance
from dann.diagnostics.game import game
from dann.diagnostics.instruments.mmd import squared_mmd
from dann.diagnostics.instruments.probe import proxy_a_distance
from dann.diagnostics.jacobians import jacobians
from dann.diagnostics.label_bounds import label_bounds
from dann.diagnostics.parity import way_parity
from dann.diagnostics.propagation import signal_propagation
from dann.diagnostics.sharpness import sharpness
from dann.diagnostics.straight_through import straight_through_health
from dann.diagnostics.verdict import Verdict, verdict
from dann.diagnostics.winning import who_is_winning

__all__ = [
    "DIAGNOSTICS",
    "Diagnosis",
    "Diagnostics",
    "Verdict",
    "check",
    "feature_distance",
    "game",
    "gradient_conflict",
    "jacobians",
    "label_bounds",
    "measure",
    "proxy_a_distance",
    "reversal_certificate",
    "sharpness",
    "signal_propagation",
    "squared_mmd",
    "straight_through_health",
    "verdict",
    "way_parity",
    "who_is_winning",
]
