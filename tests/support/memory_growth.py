"""Memory of a process that trains long, or many models.

python memory_growth.py steps|models dann|keras <count>

Prints the resident memory in MiB, ten times at even distances, as JSON.
"""

import ctypes
import gc
import json
import pathlib
import sys

import keras
import numpy as np

import dann
from dann import training
from dann.data import pair

INPUTS = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")
LABELS = (INPUTS[:, 0] > 0).astype(int)
LOOKS = 10


def memory():
    """Resident memory in MiB, without what the allocator keeps for later."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def dann_fit(epochs, steps, callbacks=()):
    """Trains a new DANN, watched as in a run."""
    training.start(seed=0)
    model = dann.DANN(dann.networks.mlp_backbone((3,), [8], input_range=None), num_classes=2)
    model.compile("adam", metrics=["accuracy"])
    pairs = pair((INPUTS, LABELS), INPUTS, batch_size=8, repeat=True, seed=0)
    callbacks = [training.StopOnNonFinite(), *callbacks]
    settings = {"steps_per_epoch": steps, "shuffle": False, "verbose": 0}
    model.fit(pairs, epochs=epochs, callbacks=callbacks, **settings)


class Endless(keras.utils.PyDataset):
    def __len__(self):
        return 10**9

    def __getitem__(self, index):
        start = 8 * (index % 8)
        return INPUTS[start : start + 8], LABELS[start : start + 8]


def keras_fit(epochs, steps, callbacks=()):
    """Trains a new Keras model of the same layers."""
    training.start(seed=0)
    layers = [keras.Input((3,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(2)]
    model = keras.Sequential(layers)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    settings = {"steps_per_epoch": steps, "shuffle": False, "verbose": 0}
    model.fit(Endless(), epochs=epochs, callbacks=callbacks, **settings)


def of_steps(fit, count):
    found = []
    look = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: found.append(memory()))
    fit(LOOKS, count // LOOKS, [look])
    return found


def of_models(fit, count):
    found = []
    for number in range(1, count + 1):
        fit(1, 2)
        if number % (count // LOOKS) == 0:
            found.append(memory())
    return found


if __name__ == "__main__":
    what, kind, count = sys.argv[1:]
    measure = {"steps": of_steps, "models": of_models}[what]
    print(json.dumps(measure({"dann": dann_fit, "keras": keras_fit}[kind], int(count))))
