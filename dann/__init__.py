"""Domain-adversarial training built on gradient reversal, for Keras 3."""

import importlib
import os

__version__ = "0.1.0"

_ROOMS = ("adaptation", "data", "gradients", "layers", "networks", "schedules", "training")
_CLASSES = ("DANN", "AdversarialModel", "SourceOnly")

__all__ = [*_CLASSES, *_ROOMS]


def __getattr__(name):
    if name in _ROOMS:
        return importlib.import_module(f"dann.{name}")
    if name in _CLASSES:
        return getattr(importlib.import_module("dann.adaptation"), name)
    raise AttributeError(f"module 'dann' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *__all__])


# `import dann` registers every class with Keras, so that `keras.models.load_model` knows them. The
# scripts put it off: a typing error on the command line need not wait for TensorFlow.
if os.environ.get("DANN_LAZY_IMPORT") != "1":
    importlib.import_module("dann.adaptation")
