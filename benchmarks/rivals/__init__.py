"""Networks and trainings in other libraries, from those of Keras."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Training(NamedTuple):
    """Steps of DANN with a reversal of strength 1 and stochastic gradient descent.

    Attributes:
        parts: Backbone, label head and domain head, models of Keras.
        arrays: Source inputs, target inputs and source labels.
        num_classes: Number of classes.
        batch_size: Examples of each domain in a step.
        steps: Number of steps of a call.
        rate: Learning rate.
    """

    parts: Sequence[Any]
    arrays: Sequence[np.ndarray]
    num_classes: int
    batch_size: int
    steps: int
    rate: float


def is_installed(package: str) -> bool:
    """Returns whether a package can be imported, without importing it."""
    return importlib.util.find_spec(package) is not None


def can_measure(rival: str) -> bool:
    """Returns whether a rival is installed and, if it is ADAPT, gets the Keras that it needs."""
    prepared = rival != "adapt" or os.environ.get("TF_USE_LEGACY_KERAS") == "1"
    return prepared and is_installed(rival)


def left_out() -> str:
    """Returns a remark that names the rivals that cannot be measured."""
    missing = ", ".join(rival for rival in ("adapt", "torch") if not can_measure(rival))
    return f"left out, because not installed: {missing}" if missing else ""


def prepare_rivals() -> None:
    """Sets what rivals read from the environment, before TensorFlow and PyTorch are imported."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # PyTorch's threads do not spin
    if is_installed("torch") and "tensorflow" not in sys.modules:
        importlib.import_module("torch._dynamo")  # it cannot be imported after TensorFlow
    if is_installed("tf_keras"):
        os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")  # ADAPT's Keras
