"""Backbones and heads as functional models.

Every file registers its backbone in `NETWORKS`, and this package exports them.
"""

from typing import TYPE_CHECKING, Any

from dann.networks.backbones import NETWORKS
from dann.networks.binary_label_head import binary_label_head
from dann.networks.heads import domain_head, label_head
from dann.registry import import_modules

import_modules(__name__)
_backbones = {function.__name__: function for function in NETWORKS.values()}
globals().update(_backbones)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    "NETWORKS",
    "binary_label_head",
    "domain_head",
    "label_head",
    *_backbones,
]
