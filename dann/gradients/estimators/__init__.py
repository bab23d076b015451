"""Quantizers with a backward pass of their own, to choose by name or as objects."""

from dann.gradients.estimators.estimator import Estimator
from dann.gradients.estimators.levels import DoReFa, Ternary
from dann.gradients.estimators.named import (
    ESTIMATORS,
    get_estimator,
    get_kernel_estimator,
    serialize_estimator,
)
from dann.gradients.estimators.sharpened import EDE, ReSTE, Sharpened
from dann.gradients.estimators.smooth import ApproxSign, SwishSign
from dann.gradients.estimators.straight_through import (
    Htanh,
    Identity,
    MagnitudeAware,
    Stochastic,
)

__all__ = [
    "EDE",
    "ESTIMATORS",
    "ApproxSign",
    "DoReFa",
    "Estimator",
    "Htanh",
    "Identity",
    "MagnitudeAware",
    "ReSTE",
    "Sharpened",
    "Stochastic",
    "SwishSign",
    "Ternary",
    "get_estimator",
    "get_kernel_estimator",
    "serialize_estimator",
]
