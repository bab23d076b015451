"""Methods of domain adaptation, one a file, and the regularizers that join them.

Every file registers what it defines; the classes are exported from here by their registration.
"""

from typing import TYPE_CHECKING

from dann.adaptation.adversarial_model import AdversarialModel
from dann.adaptation.methods import METHODS
from dann.adaptation.regularizers.regularizer import REGULARIZERS, Regularizer
from dann.optimizers.faster_heads import faster_heads
from dann.registry import import_modules

if TYPE_CHECKING:  # written by docs/tables.py
    from dann.adaptation.cdan import CDAN as CDAN
    from dann.adaptation.daln import DALN as DALN
    from dann.adaptation.dann import DANN as DANN
    from dann.adaptation.dirt_t import DIRTT as DIRTT
    from dann.adaptation.fdal import FDAL as FDAL
    from dann.adaptation.mada import MADA as MADA
    from dann.adaptation.mcd import MCD as MCD
    from dann.adaptation.mdan import MDAN as MDAN
    from dann.adaptation.mdd import MDD as MDD
    from dann.adaptation.pada import PADA as PADA
    from dann.adaptation.regularizers.conditional_entropy import (
        ConditionalEntropy as ConditionalEntropy,
    )
    from dann.adaptation.regularizers.mcc import MCC as MCC
    from dann.adaptation.regularizers.self_ensembling import SelfEnsembling as SelfEnsembling
    from dann.adaptation.regularizers.virtual_adversarial import (
        VirtualAdversarial as VirtualAdversarial,
    )
    from dann.adaptation.source_only import SourceOnly as SourceOnly
    from dann.adaptation.source_only import TargetOnly as TargetOnly
    from dann.adaptation.wdgrl import WDGRL as WDGRL

for _package in (__name__, f"{__name__}.regularizers"):
    import_modules(_package)
_registered = {cls.__name__: cls for cls in (*METHODS.values(), *REGULARIZERS.values())}
globals().update(_registered)

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    "METHODS",
    "REGULARIZERS",
    "AdversarialModel",
    "Regularizer",
    "faster_heads",
    *_registered,
]
