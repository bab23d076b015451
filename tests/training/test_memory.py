"""A process that trains long, or many models, keeps little more memory than Keras alone does."""

import ctypes
import gc
import pathlib

import keras
import numpy as np
import pytest

import dann
from dann import training
from dann.data import pair

INPUTS = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")
LABELS = (INPUTS[:, 0] > 0).astype(int)
QUIET = {"shuffle": False, "verbose": 0}


def memory():
    """Resident memory in MiB, without what the allocator keeps for later."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def fit(kind, epochs, steps, callbacks=()):
    """Trains a new model: a DANN, watched as in a run, or one of Keras of the same layers."""
    training.start(seed=0)
    if kind == "dann":
        model = dann.DANN(dann.networks.mlp_backbone((3,), [8]), num_classes=2)
        model.compile("adam", metrics=["accuracy"])
        data = pair((INPUTS, LABELS), INPUTS, batch_size=8, repeat=True, seed=0)
        callbacks = [training.StopOnNonFinite(), *callbacks]
    else:
        layers = [keras.Input((3,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(2)]
        model = keras.Sequential(layers)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("adam", loss, metrics=["accuracy"])
        data = ((INPUTS[:8], LABELS[:8]) for _ in iter(int, 1))
    model.fit(data, epochs=epochs, steps_per_epoch=steps, callbacks=callbacks, **QUIET)


def growth(what, kind, count):
    """MiB by which the process grows from a fifth of the way to the end."""
    found = []
    if what == "steps":
        look = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: found.append(memory()))
        fit(kind, 10, count // 10, [look])
    else:
        for number in range(count):
            fit(kind, 1, 2)
            if (number + 1) % (count // 10) == 0:
                found.append(memory())
    return found[-1] - found[1]


@pytest.mark.slow
@pytest.mark.parametrize(("what", "count", "share"), [("steps", 10_000, 1), ("models", 50, 1.25)])
def test_many_steps_or_models_leave_little_more_behind_than_plain_ones(what, count, share):
    """Keras and TensorFlow keep about 4 MiB of each model that was trained."""
    plain = growth(what, "keras", count)
    assert growth(what, "dann", count) < share * plain + 2
