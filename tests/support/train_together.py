"""Trains in one of several processes; `test_several_machines.py` runs it once per process.

    python -m support.train_together <folder> <names> <distribution> <steps until it dies>

Process 0 writes its checkpoints into the folder, and each process prints its weights and logs.
"""

import json
import os
import pathlib
import signal
import sys

import keras
import numpy as np
from support.train_on_devices import (
    CASES,
    RATE,
    SOURCE,
    STEPS,
    Case,
    build_case,
    list_weights,
    plain_model,
)

from dann.adaptation.prediction import final_weights, predict
from dann.training import Distribution, fit, start
from dann.training.devices import get_process_position


def layered():
    """Builds DANN with state that processes must share: statistics and noise."""
    return plain_model(keras.layers.BatchNormalization(), keras.layers.Dropout(0.5, seed=1))


CASES["layers with state"] = Case(layered)


class Scores(keras.callbacks.Callback):
    """Computes a score after each epoch, and lowers the learning rate; may kill this process."""

    def __init__(self, steps_to_death):
        super().__init__()
        self.steps_to_death = steps_to_death

    def on_train_batch_end(self, batch, logs=None):
        if self.steps_to_death is not None:
            self.steps_to_death -= 1
        if self.steps_to_death == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_epoch_end(self, epoch, logs=None):
        with final_weights(self.model):
            logits = predict(self.model.classifier, SOURCE[:7])
        logs["score"] = float(np.mean(logits.astype("float64") ** 2))
        self.model.optimizer.learning_rate = RATE / 2


def train_case(case, folder, steps_to_death):
    """Returns weights and history after two epochs of `fit`."""
    number, count = get_process_position()
    model, pairs = build_case(case, momentum=0.9, process_id=number, num_processes=count)
    settings = {"epochs": 2, "steps_per_epoch": STEPS, "verbose": 0}
    history = fit(model, pairs, folder, callbacks=[Scores(steps_to_death)], **settings)
    return list_weights(model), history.history


def main(folder, names, distribution, steps_to_death):
    spread = Distribution(**distribution)
    spread.connect()
    start(0, distribution=spread)
    number = get_process_position()[0]
    checkpoints = folder if number == 0 else folder / f"process_{number}"
    results = {name: train_case(CASES[name], checkpoints / name, steps_to_death) for name in names}
    print(json.dumps(results))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), *map(json.loads, sys.argv[2:]))
