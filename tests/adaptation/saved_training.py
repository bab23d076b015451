"""Trainings that a `.keras` file interrupts; run as a program by the tests.

    python saved_training.py <folder> <first epoch> <last epoch>

Trains each model from one epoch to another and saves it to the folder, with all its bits. From an
epoch above 0 it goes on with what it finds there.
"""

import pathlib
import sys

import keras
import numpy as np

import dann
from dann.layers import DomainBlend
from dann.networks import cnn_backbone, mlp_backbone

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(16, 4)).astype("float32")
IMAGES = RNG.integers(0, 255, (16, 8, 8, 1)).astype("uint8")
LABELS = np.arange(16) % 2


def with_dropout():
    entry = keras.Input((4,))
    hidden = keras.layers.Dropout(0.5)(keras.layers.Dense(6, activation="relu")(entry))
    return dann.DANN(keras.Model(entry, hidden), num_classes=2)


def with_augmentation_and_blend():
    augmentation = {"source": keras.layers.RandomTranslation(0.2, 0.2), "blend": DomainBlend()}
    backbone = cnn_backbone((8, 8, 1), filters=(3,), units=4)
    return dann.DANN(backbone, num_classes=2, augmentation=augmentation)


def with_virtual_adversaries():
    return dann.DANN(
        mlp_backbone((4,), (6,)), num_classes=2, regularizers=[dann.VirtualAdversarial(1.0, 0.5)]
    )


MODELS = {
    "dropout": (with_dropout, FEATURES, {}),
    "augmentation and blend": (with_augmentation_and_blend, IMAGES, {}),
    "virtual adversaries": (with_virtual_adversaries, FEATURES, {}),
}


def started(name, compiled=False):
    keras.utils.set_random_seed(5)
    build, x, options = MODELS[name]
    model = build()
    model.compile(keras.optimizers.Adam(0.01, **options), run_eagerly=not compiled)
    return model, dann.data.pair((x, LABELS), x, 4, repeat=True, seed=3)


def trained(model, pairs, first, last, callbacks=()):
    pairs.start = 2 * first
    epochs = {"initial_epoch": first, "epochs": last}
    model.fit(pairs, steps_per_epoch=2, verbose=0, callbacks=list(callbacks), **epochs)
    return model


def bits(model):
    return [keras.ops.convert_to_numpy(v) for v in (*model.variables, *model.optimizer.variables)]


def main(folder, first, last):
    for name in MODELS:
        file = folder / f"{name}.keras"
        model, pairs = started(name)
        if first:
            keras.utils.set_random_seed(77)
            model = keras.models.load_model(file)
        trained(model, pairs, first, last).save(file)
        np.savez(folder / f"{name}.npz", *bits(model))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), *map(int, sys.argv[2:]))
