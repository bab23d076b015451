"""Networks and training steps in other libraries, converted from Keras models."""

import importlib
import importlib.util
import os
import sys


def is_installed(package: str) -> bool:
    """Returns whether a package can be imported, without importing it."""
    return importlib.util.find_spec(package) is not None


def prepare_rivals() -> None:
    """Sets environment variables of other libraries; call it before importing TensorFlow."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # PyTorch's idle threads sleep
    if is_installed("torch") and "tensorflow" not in sys.modules:
        importlib.import_module("torch._dynamo")  # it cannot be imported after TensorFlow
    if is_installed("tf_keras"):
        os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")  # ADAPT's Keras
