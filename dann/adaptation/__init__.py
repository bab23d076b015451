"""Methods of domain adaptation, one objective a file."""

from dann.adaptation.adversarial_model import AdversarialModel
from dann.adaptation.dann import DANN
from dann.adaptation.source_only import SourceOnly

__all__ = ["DANN", "AdversarialModel", "SourceOnly"]
