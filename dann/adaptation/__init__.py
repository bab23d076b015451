"""Methods of domain adaptation, one objective a file."""

from dann.adaptation.adversarial_model import AdversarialModel
from dann.adaptation.dann import DANN
from dann.adaptation.faster_heads import faster_heads
from dann.adaptation.regularizer import Regularizer
from dann.adaptation.source_only import SourceOnly
from dann.adaptation.target_only import TargetOnly

__all__ = ["DANN", "AdversarialModel", "Regularizer", "SourceOnly", "TargetOnly", "faster_heads"]
