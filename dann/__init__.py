"""Domain-adversarial training built on gradient reversal, for Keras 3."""

import importlib
import importlib.util
import os
import sys
from typing import TYPE_CHECKING

from dann.standard_error import held_back, is_no_information

if TYPE_CHECKING:  # written by docs/tables.py
    from dann import adaptation as adaptation
    from dann import autodiff as autodiff
    from dann import data as data
    from dann import deployment as deployment
    from dann import diagnostics as diagnostics
    from dann import gradients as gradients
    from dann import layers as layers
    from dann import networks as networks
    from dann import optimizers as optimizers
    from dann import schedules as schedules
    from dann import selection as selection
    from dann import training as training
    from dann.adaptation import CDAN as CDAN
    from dann.adaptation import DALN as DALN
    from dann.adaptation import DANN as DANN
    from dann.adaptation import DIRTT as DIRTT
    from dann.adaptation import FDAL as FDAL
    from dann.adaptation import MADA as MADA
    from dann.adaptation import MCC as MCC
    from dann.adaptation import MCD as MCD
    from dann.adaptation import MDAN as MDAN
    from dann.adaptation import MDD as MDD
    from dann.adaptation import PADA as PADA
    from dann.adaptation import WDGRL as WDGRL
    from dann.adaptation import AdversarialModel as AdversarialModel
    from dann.adaptation import ConditionalEntropy as ConditionalEntropy
    from dann.adaptation import Regularizer as Regularizer
    from dann.adaptation import SelfEnsembling as SelfEnsembling
    from dann.adaptation import SourceOnly as SourceOnly
    from dann.adaptation import TargetOnly as TargetOnly
    from dann.adaptation import VirtualAdversarial as VirtualAdversarial

__version__ = "0.1.0"

_ROOMS = (
    "adaptation",
    "autodiff",
    "data",
    "deployment",
    "diagnostics",
    "gradients",
    "layers",
    "networks",
    "optimizers",
    "schedules",
    "selection",
    "training",
)


def __getattr__(name):
    if name in _ROOMS:
        return importlib.import_module(f"dann.{name}")
    # Classes are capitalized; asking for anything else must not import Keras.
    if name[:1].isupper() and name in (classes := _classes()):
        return classes[name]
    if name == "__all__":
        return [*_ROOMS, *_classes()]
    raise AttributeError(f"module 'dann' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_ROOMS, *_classes()])


def _classes():
    """The methods and regularizers by name, with the class that methods derive from."""
    adaptation = importlib.import_module("dann.adaptation")
    found = (getattr(adaptation, name) for name in adaptation.__all__)
    return {each.__name__: each for each in found if isinstance(each, type)}


# `import dann` registers every class with Keras, so that `keras.models.load_model` knows them. The
# scripts put it off: a typing error on the command line need not wait for TensorFlow. Where there
# is no Keras, packed files are still run.
if os.environ.get("DANN_LAZY_IMPORT") != "1" and importlib.util.find_spec("keras"):
    if "keras" not in sys.modules and "TF_CPP_MIN_LOG_LEVEL" not in os.environ:
        with held_back(is_no_information):  # TensorFlow tells how it was built at each start
            importlib.import_module("keras")
    for module in ("adaptation", "schedules.learning_rates"):
        importlib.import_module(f"dann.{module}")
