"""Methods of domain adaptation, one per file, and regularizers for any method."""

from dann.adaptation.adversarial_model import METHODS, AdversarialModel
from dann.adaptation.batch_norm import adapt_batch_norm
from dann.adaptation.cdan import CDAN
from dann.adaptation.daln import DALN
from dann.adaptation.dann import DANN
from dann.adaptation.dirt_t import DIRTT
from dann.adaptation.fdal import FDAL
from dann.adaptation.invariant import Invariant
from dann.adaptation.mcd import MCD
from dann.adaptation.mdan import MDAN
from dann.adaptation.mdd import MDD
from dann.adaptation.regularizers.conditional_entropy import ConditionalEntropy
from dann.adaptation.regularizers.coral import CORAL
from dann.adaptation.regularizers.mcc import MCC
from dann.adaptation.regularizers.regularizer import REGULARIZERS, Regularizer
from dann.adaptation.regularizers.self_ensembling import SelfEnsembling
from dann.adaptation.regularizers.virtual_adversarial import VirtualAdversarial
from dann.adaptation.source_only import SourceOnly, TargetOnly
from dann.adaptation.wdgrl import WDGRL
