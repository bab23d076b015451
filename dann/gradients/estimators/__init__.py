"""Quantizers with their own backward pass, to choose by name or as objects.

Every file registers its estimators, and this package exports them.
"""

from typing import TYPE_CHECKING, Any

from dann.gradients.estimators.estimator import ESTIMATORS, Estimator, register_estimator
from dann.gradients.estimators.named import (
    get_estimator,
    get_kernel_estimator,
    name_or_estimator,
)
from dann.gradients.estimators.quantizer import Quantizer
from dann.gradients.estimators.sharpened import Sharpened
from dann.registry import import_modules

import_modules(__name__)
_classes = {type(estimator).__name__: type(estimator) for estimator in ESTIMATORS.values()}
globals().update(_classes)

if TYPE_CHECKING:
    from dann.gradients.estimators.straight_through import MagnitudeAware as MagnitudeAware
    from dann.gradients.estimators.straight_through import Stochastic as Stochastic

    def __getattr__(name: str) -> Any: ...


__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    "ESTIMATORS",
    "Estimator",
    "Quantizer",
    "Sharpened",
    "get_estimator",
    "get_kernel_estimator",
    "name_or_estimator",
    "register_estimator",
    *_classes,
]
