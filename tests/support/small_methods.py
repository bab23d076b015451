"""A small model of every registered method, and a pair of domains for it."""

import functools

import keras
import numpy as np
import pytest

from dann.adaptation import SourceOnly, adversarial_model
from dann.networks import mlp_backbone
from dann.schedules import GaninSchedule

RNG = np.random.default_rng(0)
INPUTS = {name: RNG.normal(size=(12, 4)).astype("float32") for name in ("source", "target")}
LABELS = np.arange(12) % 3


def backbone():
    return mlp_backbone((4,), hidden_units=(6,))


def critic():
    """Returns a critic without a last bias, which would cancel in the distance."""
    entry = keras.Input((6,))
    hidden = keras.layers.Dense(5, activation="tanh")(entry)
    return keras.Model(entry, keras.layers.Dense(1, use_bias=False, dtype="float32")(hidden))


EXTRA = {
    "cdan_e": lambda: {"max_units": 11, "domain_label_smoothing": 0.1},
    "dirt_t": lambda: {"seed": 1, "teacher_weight": 0.7, "refresh_steps": 2},
    "fdal": lambda: {"divergence": "jensen_shannon"},
    "mdan": lambda: {"gamma": 2.0, "weighting": "hard"},
    "mdd": lambda: {"gamma": 2.5},
    "wdgrl": lambda: {"seed": 1, "domain_head": critic(), "critic_steps": 2},
}


def build_small_model(name, **kwargs):
    """Returns a small model of a registered method."""
    metadata, kind = METADATA[name], CLASSES[name]
    arguments = {"backbone": backbone(), "num_classes": 3}
    arguments |= {**metadata.get("arguments", {}), **metadata.get("example_arguments", {})}
    return kind(**{**arguments, **EXTRA.get(name, dict)(), **kwargs})


METADATA, CLASSES = adversarial_model.METHODS.metadata, dict(adversarial_model.METHODS)
METHODS = {name: functools.partial(build_small_model, name) for name in sorted(CLASSES)}
SCHEDULED = {"strength": GaninSchedule(100), "joint_forward": False}
METHODS["dann_schedule"] = functools.partial(build_small_model, "dann", **SCHEDULED)
VARIANTS = {"dann_schedule", *(name for name in METADATA if "arguments" in METADATA[name])}
BASELINES = {name for name, kind in CLASSES.items() if issubclass(kind, SourceOnly)}
# One method per kind of step. Shared code is tested with these, and in slow tests with all.
FEW = {"source_only", "dann", "dirt_t", "mcd", "wdgrl"}


def parametrize(names=METHODS, slow=VARIANTS):
    params = [pytest.param(n, marks=pytest.mark.slow) if n in slow else n for n in names]
    return pytest.mark.parametrize("name", params)


few_methods = parametrize(slow=set(METHODS) - FEW)
