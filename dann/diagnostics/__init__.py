"""Measurements of a model: does the reversal work, which player is winning, and many more."""

from dann.diagnostics.catalogue import DIAGNOSTICS
from dann.diagnostics.certificate import certify
from dann.diagnostics.check import Diagnosis, check, measure
from dann.diagnostics.conflict import gradient_conflict
from dann.diagnostics.confounding import (
    ConfoundedClass,
    accuracy_by_nuisance,
    find_confounded_classes,
)
from dann.diagnostics.diagnostics_callback import Diagnostics
from dann.diagnostics.discriminator_vs_probe import discriminator_vs_probe
from dann.diagnostics.feature_distance import feature_distance
from dann.diagnostics.jacobians import jacobians
from dann.diagnostics.label_loss_baselines import label_loss_baselines
from dann.diagnostics.layer_outputs import layer_outputs
from dann.diagnostics.leakage import Leakage, leakage
from dann.diagnostics.minmax_spectrum import minmax_spectrum
from dann.diagnostics.sharpness import sharpness
from dann.diagnostics.signal_propagation import signal_propagation
from dann.diagnostics.straight_through_health import straight_through_health
from dann.diagnostics.verdict import Verdict, verdict
