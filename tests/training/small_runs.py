"""Runs of a few steps."""

import keras

from dann.networks import cnn_backbone
from dann.training import preparation, run
from dann.training.trainer import Trainer

TRAINER = Trainer(steps=6, steps_per_epoch=2, batch_size=4, run_eagerly=True)


def train_small(folder, domains, model, *baseline, trainer=TRAINER, seed=1, **settings):
    return run.train_run(folder, domains, trainer, seed, model, *baseline, **settings)


def build_model(method, learning_rate=0.01, trainer=TRAINER, **options):
    preparation.start(seed=1)
    model = method(cnn_backbone((8, 8, 1), filters=(4,), units=5), num_classes=3)
    return preparation.compile_model(model, keras.optimizers.SGD(learning_rate, **options), trainer)
