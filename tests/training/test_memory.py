"""Long trainings, or many models, need little more memory than Keras alone."""

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
    """Returns the resident memory in MiB, without memory that the allocator keeps."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def fit(kind, epochs, steps, callbacks=()):
    """Trains a new model: a DANN with the callback of a run, or a Keras model of equal layers."""
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


def memory_growth(unit, kind, count):
    """Returns the MiB by which the process grows after the first fifth."""
    samples = []
    if unit == "steps":
        recorder = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: samples.append(memory()))
        fit(kind, 10, count // 10, [recorder])
    else:
        for number in range(count):
            fit(kind, 1, 2)
            if (number + 1) % (count // 10) == 0:
                samples.append(memory())
    return samples[-1] - samples[1]


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "count", "share"), [("steps", 10_000, 1), ("models", 50, 1.25)])
def test_memory_grows_little_more_than_with_keras(unit, count, share):
    """Keras and TensorFlow keep about 4 MiB per trained model."""
    keras_growth = memory_growth(unit, "keras", count)
    assert memory_growth(unit, "dann", count) < share * keras_growth + 2
