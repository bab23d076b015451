"""Quantizers with their own backward pass, to choose by name or as objects."""

from dann.gradients.estimators.curves import EDE, ApproxSign, ReSTE, Sharpened, SwishSign
from dann.gradients.estimators.estimator import ESTIMATORS, Estimator, register_estimator
from dann.gradients.estimators.named import (
    Quantizer,
    get_estimator,
    get_kernel_estimator,
    name_or_estimator,
)
from dann.gradients.estimators.straight_through import (
    DoReFa,
    Htanh,
    Identity,
    MagnitudeAware,
    Stochastic,
    Ternary,
)
