"""Quantizers with their own backward pass, available by name or as objects."""

from dann.gradients.estimators.curves import EDE as EDE
from dann.gradients.estimators.curves import ApproxSign as ApproxSign
from dann.gradients.estimators.curves import ReSTE as ReSTE
from dann.gradients.estimators.curves import SwishSign as SwishSign
from dann.gradients.estimators.estimator import Estimator as Estimator
from dann.gradients.estimators.straight_through import DoReFa as DoReFa
from dann.gradients.estimators.straight_through import Htanh as Htanh
from dann.gradients.estimators.straight_through import Identity as Identity
from dann.gradients.estimators.straight_through import MagnitudeAware as MagnitudeAware
from dann.gradients.estimators.straight_through import Stochastic as Stochastic
from dann.gradients.estimators.straight_through import Ternary as Ternary
