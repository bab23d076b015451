"""Domain-adversarial training built on gradient reversal, for Keras 3."""

import importlib
import importlib.util
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dann import (
        adaptation,
        autodiff,
        data,
        deployment,
        diagnostics,
        gradients,
        layers,
        networks,
        optimizers,
        schedules,
        selection,
        training,
    )
    from dann.adaptation import (
        CDAN,
        DALN,
        DANN,
        DIRTT,
        FDAL,
        MADA,
        MCC,
        MCD,
        MDAN,
        MDD,
        PADA,
        WDGRL,
        AdversarialModel,
        ConditionalEntropy,
        SourceOnly,
        TargetOnly,
        VirtualAdversarial,
    )

__version__ = "0.1.0"

__all__ = [
    "CDAN",
    "DALN",
    "DANN",
    "DIRTT",
    "FDAL",
    "MADA",
    "MCC",
    "MCD",
    "MDAN",
    "MDD",
    "PADA",
    "WDGRL",
    "AdversarialModel",
    "ConditionalEntropy",
    "SourceOnly",
    "TargetOnly",
    "VirtualAdversarial",
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
]


def __getattr__(name):
    if name not in __all__:
        raise AttributeError(f"module 'dann' has no attribute {name!r}")
    if name.islower():
        return importlib.import_module(f"dann.{name}")
    return getattr(importlib.import_module("dann.adaptation"), name)


def __dir__():
    return sorted([*globals(), *__all__])


# `import dann` registers every class with Keras, so that `keras.models.load_model` knows them. The
# scripts put it off: a typing error on the command line need not wait for TensorFlow. Where there
# is no Keras, packed files are still run.
if os.environ.get("DANN_LAZY_IMPORT") != "1" and importlib.util.find_spec("keras"):
    importlib.import_module("dann.adaptation")
