"""Quantizers with their own backward pass, available by name or as objects."""

from dann.gradients.estimators.curves import EDE, ApproxSign, ReSTE, ScheduledEstimator, SwishSign
from dann.gradients.estimators.estimator import ESTIMATORS, Estimator
from dann.gradients.estimators.identifiers import Quantizer, get_estimator
from dann.gradients.estimators.straight_through import (
    DoReFa,
    Htanh,
    Identity,
    MagnitudeAware,
    Stochastic,
    Ternary,
)
