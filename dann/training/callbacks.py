"""Callbacks of a run: its time, the oracle curve, and the averaged weights."""

import time
from collections.abc import Sequence
from typing import Any

import keras

from dann.adaptation.training_state import averages_weights, put_averages, steps_taken, values_of
from dann.training.run_directory import RunDirectory


class Clock(keras.callbacks.Callback):
    """Adds up the time of the training steps; must be the first of the callbacks.

    It leaves out the time of other callbacks at the end of an epoch, such as saving.
    `seconds` is wall time, `cpu_seconds` the time of all threads of the process.
    """

    def __init__(self):
        super().__init__()
        self.seconds = 0.0
        self.cpu_seconds = 0.0
        self._started: tuple[float, float] | None = None

    def on_epoch_begin(self, epoch, logs=None):
        self._started = time.perf_counter(), time.process_time()

    def on_epoch_end(self, epoch, logs=None):
        self.load_state_dict(self.state_dict())
        self._started = None

    def state_dict(self) -> dict[str, float]:
        """Returns both times so far, within an epoch too."""
        started = self._started
        now = started and (time.perf_counter() - started[0], time.process_time() - started[1])
        seconds, cpu_seconds = now or (0.0, 0.0)
        return {
            "seconds": self.seconds + seconds,
            "cpu_seconds": self.cpu_seconds + cpu_seconds,
        }

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Restores the times that `state_dict` returned."""
        self.seconds, self.cpu_seconds = state["seconds"], state["cpu_seconds"]


class OracleCurve(keras.callbacks.Callback):
    """Measures the accuracy on the target's test set after every epoch.

    It writes the run's oracle curve and adds nothing to the logs, so that no other callback can
    stop, save or choose by target labels.

    Args:
        target: Batches of target test inputs and labels.
        run: The run directory.
        clock: A clock earlier in the list of callbacks.
    """

    def __init__(self, target: Any, run: RunDirectory, clock: Clock):
        super().__init__()
        self.target = target
        self.run = run
        self.clock = clock
        self.rows = []

    def on_epoch_end(self, epoch, logs=None):
        logs = self.model.evaluate(self.target, verbose=0, return_dict=True)
        step = steps_taken(self.model)
        self.rows.append((step, round(self.clock.cpu_seconds, 2), logs["accuracy"]))
        self.run.write_oracle_curve(self.rows)


def on_final_weights(
    optimizer: keras.optimizers.Optimizer, callbacks: Sequence[keras.callbacks.Callback]
) -> list[keras.callbacks.Callback]:
    """Wraps callbacks so that they see the weights with which the training would end now.

    With `use_ema=True` an optimizer trains one set of weights and ends with their moving average.
    The given callbacks then see the average; those after them in the list see the weights in
    training, which a checkpoint needs in order to resume.
    """
    if not callbacks or not averages_weights(optimizer):
        return list(callbacks)
    averages = _Averages()
    return [averages, *callbacks, _TrainedAgain(averages)]


class _Averages(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.trained = ()

    def on_epoch_end(self, epoch, logs=None):
        self.trained = values_of(self.model.trainable_variables)
        put_averages(self.model)


class _TrainedAgain(keras.callbacks.Callback):
    def __init__(self, averages):
        super().__init__()
        self.averages = averages

    def on_epoch_end(self, epoch, logs=None):
        weights = self.model.trainable_variables
        for variable, value in zip(weights, self.averages.trained, strict=True):
            variable.assign(value)
        self.averages.trained = ()
