"""Trains in one of several processes; `test_several_machines.py` runs it once per process.

    python train_together.py <folder> <names> <distribution> <step to die at>

Process 0 writes its checkpoints into the folder, and each process its weights and logs.
"""

import json
import os
import pathlib
import signal
import sys

import keras
import numpy as np
from train_on_devices import CASES, RATE, SOURCE, STEPS, Case, backbone, build_case, flatten_weights

from dann.adaptation import DANN
from dann.adaptation.prediction import final_weights, predict
from dann.data.pairs import Pairs
from dann.training import Distribution, fit, start
from dann.training.devices import get_process_position


def layered():
    """Builds DANN with state that processes must share: statistics and noise."""
    layers = [keras.layers.BatchNormalization(), keras.layers.Dropout(0.5, seed=1)]
    return DANN(backbone(*layers), num_classes=3)


CASES["layers with state"] = Case(layered)


class Scores(keras.callbacks.Callback):
    """Computes a score after each epoch, and lowers the learning rate."""

    def on_epoch_end(self, epoch, logs=None):
        with final_weights(self.model):
            logits = predict(self.model.classifier, SOURCE[:7])
        logs["score"] = float(np.mean(logits.astype("float64") ** 2))
        self.model.optimizer.learning_rate = RATE / 2


def train_case(case, folder):
    """Returns weights and history after two epochs of `fit`."""
    number, count = get_process_position()
    model, pairs = build_case(case, momentum=0.9, process_id=number, num_processes=count)
    settings = {"epochs": 2, "steps_per_epoch": STEPS, "verbose": 0}
    history = fit(model, pairs, folder, callbacks=[Scores()], **settings)
    return flatten_weights(model), history.history


def die_at(step):
    """Kills this process when it reads the batch of a step."""
    read = Pairs.__getitem__

    def read_or_die(self, index):
        if self.start + index == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return read(self, index)

    Pairs.__getitem__ = read_or_die


def main(folder, names, distribution, death=None):
    spread = Distribution(**distribution)
    spread.connect()
    start(0, distribution=spread)
    if death is not None:
        die_at(death)
    number = get_process_position()[0]
    checkpoints = folder if number == 0 else folder / f"process_{number}"
    weights, logs = {}, {}
    for name in names:
        weights[name], logs[name] = train_case(CASES[name], checkpoints / name)
    np.savez(folder / f"weights_{number}.npz", **weights)
    (folder / f"logs_{number}.json").write_text(json.dumps(logs))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), *map(json.loads, sys.argv[2:]))
