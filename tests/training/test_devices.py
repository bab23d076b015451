"""Names of devices, and training steps on an accelerator, which equal those of the processor.

tests/adaptation tests what several devices compute.
"""

import os
import re

import keras
import numpy as np
import pytest

from dann.adaptation import DANN
from dann.data import pair
from dann.training import devices, preparation


@pytest.mark.parametrize(
    ("accelerators", "cores", "description"),
    [
        ([], {3}, ".+, 1 core"),
        ([], {0, 1}, ".+, 2 cores"),
        (["H100"] * 2, {3}, "2 x H100"),
        (["L4", "H100", "L4"], {3}, "1 x H100 and 2 x L4"),
    ],
)
def test_hardware_counts_accelerators_or_cores(accelerators, cores, description, monkeypatch):
    monkeypatch.setattr(devices, "list_accelerators", lambda: accelerators)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: cores, raising=False)
    assert re.fullmatch(description, devices.describe_hardware())


RNG = np.random.default_rng(0)
SOURCE = RNG.normal(size=(24, 16, 16, 3)).astype("float32")
TARGET = (0.5 * RNG.normal(size=SOURCE.shape) + 1).astype("float32")
# Largest norm of the difference from an eager float32 step of the processor, over the norm of the
# step. In bfloat16 a processor differs by up to 0.0068, in float16 by 0.0007 (4 seeds, JAX); half
# of the strength differs by 0.37. Accelerators may multiply float32 in TF32, with 10 bits.
TOLERANCES = {"float32": 4e-3, "mixed_bfloat16": 3e-2, "mixed_float16": 4e-3}


def train_step(precision, initial=None, run_eagerly=False):
    """Returns the initial weights, and what one step of gradient descent adds to them."""
    preparation.start(0, precision)
    # Smooth everywhere: at a kink, rounding can select another slope.
    layers = [keras.layers.Conv2D(8, 3, strides=2, activation="tanh"), keras.layers.Flatten()]
    layers = [keras.Input(SOURCE.shape[1:]), *layers, keras.layers.Dense(32, activation="tanh")]
    heads = {
        name: keras.Sequential([keras.Input((32,)), keras.layers.Dense(units)])
        for name, units in (("label_head", 5), ("domain_head", 1))
    }
    model = DANN(keras.Sequential(layers), strength=0.7, **heads)
    optimizer = keras.optimizers.SGD(0.1)
    if precision == "mixed_float16":  # at this scale no gradient overflows
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=1024.0)
    model.compile(optimizer, run_eagerly=run_eagerly)
    for weight, value in zip(model.trainable_variables, initial or (), strict=bool(initial)):
        weight.assign(value)  # devices draw different numbers from one seed
    initial = [np.array(keras.ops.convert_to_numpy(v)) for v in model.trainable_variables]
    pairs = pair((SOURCE, np.arange(24) % 5), TARGET, batch_size=24, repeat=True, seed=0)
    model.fit(pairs, epochs=1, steps_per_epoch=1, verbose=0)
    after = [keras.ops.convert_to_numpy(v) for v in model.trainable_variables]
    moves = [np.ravel(a - b).astype("float64") for a, b in zip(after, initial, strict=True)]
    return initial, np.concatenate(moves)


@pytest.fixture(scope="module")
def reference():
    with keras.device("cpu"):
        return train_step("float32", run_eagerly=True)


@pytest.mark.skipif(not devices.list_accelerators(), reason="needs an accelerator")
@pytest.mark.parametrize("precision", TOLERANCES)
def test_compiled_step_matches_eager_processor(precision, reference):
    initial, expected = reference
    step = train_step(precision, initial)[1]
    error = np.linalg.norm(step - expected) / np.linalg.norm(expected)
    assert error < TOLERANCES[precision]
