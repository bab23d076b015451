"""How much the memory of a process grows that trains long, or many models.

python memory_growth.py steps|models dann|keras <count>

Prints the growth in MiB from a fifth of the way to the end.
"""

import ctypes
import gc
import pathlib
import sys

import keras
import numpy as np

import dann
from dann import training
from dann.data import pair

INPUTS = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")
LABELS = (INPUTS[:, 0] > 0).astype(int)


class Endless(keras.utils.PyDataset):
    def __len__(self):
        return 10**9

    def __getitem__(self, index):
        start = 8 * (index % 8)
        return INPUTS[start : start + 8], LABELS[start : start + 8]


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
        model = dann.DANN(dann.networks.mlp_backbone((3,), [8], input_range=None), num_classes=2)
        model.compile("adam", metrics=["accuracy"])
        data = pair((INPUTS, LABELS), INPUTS, batch_size=8, repeat=True, seed=0)
        callbacks = [training.StopOnNonFinite(), *callbacks]
    else:
        layers = [keras.Input((3,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(2)]
        model, data = keras.Sequential(layers), Endless()
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("adam", loss, metrics=["accuracy"])
    settings = {"steps_per_epoch": steps, "shuffle": False, "verbose": 0}
    model.fit(data, epochs=epochs, callbacks=callbacks, **settings)


def main(what, kind, count):
    found = []
    if what == "steps":
        look = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: found.append(memory()))
        fit(kind, 10, count // 10, [look])
    else:
        for _ in range(10):
            for _ in range(count // 10):
                fit(kind, 1, 2)
            found.append(memory())
    print(found[-1] - found[1])


if __name__ == "__main__":
    main(*sys.argv[1:3], int(sys.argv[3]))
