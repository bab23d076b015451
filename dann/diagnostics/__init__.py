"""Measurements of a model: does the reversal work, which player is winning, and many more."""

from dann.diagnostics.certificate import certify as certify
from dann.diagnostics.check import Diagnostics as Diagnostics
from dann.diagnostics.check import check as check
from dann.diagnostics.conflict import gradient_conflict as gradient_conflict
from dann.diagnostics.confounding import accuracy_by_nuisance as accuracy_by_nuisance
from dann.diagnostics.confounding import find_confounded_classes as find_confounded_classes
from dann.diagnostics.discriminator_vs_probe import discriminator_vs_probe as discriminator_vs_probe
from dann.diagnostics.feature_distance import feature_distance as feature_distance
from dann.diagnostics.jacobians import jacobians as jacobians
from dann.diagnostics.label_loss_baselines import label_loss_baselines as label_loss_baselines
from dann.diagnostics.layer_outputs import layer_outputs as layer_outputs
from dann.diagnostics.leakage import leakage as leakage
from dann.diagnostics.minmax_spectrum import minmax_spectrum as minmax_spectrum
from dann.diagnostics.sharpness import sharpness as sharpness
from dann.diagnostics.signal_propagation import signal_propagation as signal_propagation
from dann.diagnostics.straight_through_health import (
    straight_through_health as straight_through_health,
)
