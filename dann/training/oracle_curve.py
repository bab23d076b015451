"""The target accuracy while a model trains, kept away from all that could choose by it."""

import csv
import pathlib
from typing import Any

import keras

from dann.training.clock import Clock


class OracleCurve(keras.callbacks.Callback):
    """Measures the accuracy on the target's test set after every epoch.

    It writes a CSV file with the columns `step`, `cpu_seconds` (of the training alone) and
    `target/accuracy`. Nothing of it enters the logs, so that no other callback
    can stop, save or choose by target labels.

    Args:
        target: Batches of target test inputs and labels.
        path: Where to write.
        clock: A clock that stands before this in the list of callbacks.
    """

    def __init__(self, target: Any, path: str | pathlib.Path, clock: Clock):
        super().__init__()
        self.target = target
        self.path = pathlib.Path(path)
        self.clock = clock
        self.rows = []

    def on_epoch_end(self, epoch, logs=None):
        logs = self.model.evaluate(self.target, verbose=0, return_dict=True)
        step = int(self.model.optimizer.iterations)
        self.rows.append((step, round(self.clock.cpu_seconds, 2), logs["accuracy"]))
        with self.path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("step", "cpu_seconds", "target/accuracy"))
            writer.writerows(self.rows)
