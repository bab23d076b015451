"""Trains in one of several processes; run by `test_several_machines.py`, once for each.

Process 0 writes the logs, every process its weights and how many of them are split.
"""

import json
import os
import pathlib
import signal
import sys

import keras
import numpy as np
from train_on_devices import BATCH, LABELLED, LABELS, RATE, SOURCE, TARGET, Case, backbone

import dann
from dann.adaptation import CDAN, DANN, MCD
from dann.data.pairs import Pairs
from dann.training import Distribution, fit, start
from dann.training.one_process import alone

STEPS = 3  # of each of two epochs


def layered():
    """A backbone with the state that processes must share: statistics and noise."""
    layers = [keras.layers.BatchNormalization(), keras.layers.Dropout(0.5, seed=1)]
    return DANN(backbone(*layers), num_classes=3)


CASES = {
    "mcd": Case(lambda: MCD(backbone(), num_classes=3)),
    "cdan_e": Case(lambda: CDAN(backbone(), num_classes=3, entropy_conditioning=True)),
    "layers with state": Case(layered),
    "labelled target": Case(
        lambda: DANN(backbone(), num_classes=3), {"target_labelled": LABELLED}, weighed=True
    ),
    "averaged weights": Case(
        lambda: DANN(backbone(), num_classes=3), optimizer={"use_ema": True, "ema_momentum": 0.5}
    ),
}


class Scores(keras.callbacks.Callback):
    """Evaluates within a step and after an epoch, and lowers the learning rate."""

    def on_train_batch_end(self, batch, logs=None):
        if batch == 1:
            self.model.predict(SOURCE[:5], verbose=0)

    def on_epoch_end(self, epoch, logs=None):
        logs["score"] = float(np.mean(self.model.predict(SOURCE[:7], verbose=0) ** 2))
        self.model.optimizer.learning_rate = RATE / 2


def trained(case, folder, part):
    """Weights, history and the number of split weights after two epochs of `fit`."""
    keras.utils.set_random_seed(1)
    model = case.model()
    model.compile(keras.optimizers.SGD(RATE, momentum=0.9, **case.optimizer), metrics=["accuracy"])
    weights = [np.linspace(0.5, 1.5, 24)] if case.weighed else []
    pairs = dann.data.pair(
        (SOURCE, LABELS, *weights),
        TARGET.astype("float32"),
        **{"batch_size": BATCH, "seed": 3, "repeat": True, **case.pairs, **part},
    )
    settings = {"epochs": 2, "steps_per_epoch": STEPS, "verbose": 0, "every": 2}
    history = fit(model, pairs, folder, callbacks=[Scores()], **settings)
    values = [variable.value for variable in model.variables]
    split = sum(value.addressable_data(0).shape != value.shape for value in values)
    with alone(model):
        weights = np.concatenate([w.astype("float64").ravel() for w in model.get_weights()])
    return weights, history, split


def dies_at(step):
    """Lets this process be killed as it reads the batch of a step."""
    read = Pairs.__getitem__

    def read_or_die(self, index):
        if self.start + index == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return read(self, index)

    Pairs.__getitem__ = read_or_die


def main(folder, names, distribution, death=None):
    spread = Distribution(**distribution)
    spread.split_processor()
    group = spread.join()
    start(0, distribution=spread)
    if death is not None:
        dies_at(death)
    part = {"process_id": spread.process_id, "num_processes": spread.num_processes}
    weights, logs, split = {}, {}, {}
    for name in names:
        found = trained(CASES[name], folder / name / "checkpoints", part)
        weights[name], history, split[name] = found
        logs[name] = history.history
    np.savez(folder / f"weights_{spread.process_id}.npz", **weights)
    (folder / f"split_{spread.process_id}.json").write_text(json.dumps(split))
    if spread.leads:
        (folder / "logs.json").write_text(json.dumps(logs))
    if group is not None:
        group.leave()


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), *map(json.loads, sys.argv[2:]))
