"""Methods of domain adaptation, one per file, and regularizers for any method."""

from dann.adaptation.adversarial_model import AdversarialModel as AdversarialModel
from dann.adaptation.batch_norm import adapt_batch_norm as adapt_batch_norm
from dann.adaptation.cdan import CDAN as CDAN
from dann.adaptation.daln import DALN as DALN
from dann.adaptation.dann import DANN as DANN
from dann.adaptation.dirt_t import DIRTT as DIRTT
from dann.adaptation.fdal import FDAL as FDAL
from dann.adaptation.invariant import Invariant as Invariant
from dann.adaptation.mcd import MCD as MCD
from dann.adaptation.mdan import MDAN as MDAN
from dann.adaptation.mdd import MDD as MDD
from dann.adaptation.regularizers.conditional_entropy import (
    ConditionalEntropy as ConditionalEntropy,
)
from dann.adaptation.regularizers.coral import CORAL as CORAL
from dann.adaptation.regularizers.mcc import MCC as MCC
from dann.adaptation.regularizers.regularizer import Regularizer as Regularizer
from dann.adaptation.regularizers.self_ensembling import SelfEnsembling as SelfEnsembling
from dann.adaptation.regularizers.virtual_adversarial import (
    VirtualAdversarial as VirtualAdversarial,
)
from dann.adaptation.source_only import SourceOnly as SourceOnly
from dann.adaptation.source_only import TargetOnly as TargetOnly
from dann.adaptation.wdgrl import WDGRL as WDGRL
