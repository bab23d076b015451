"""How long a training takes."""

import time

import keras


class Clock(keras.callbacks.Callback):
    """Adds up the time of the training steps; stands first among the callbacks.

    What other callbacks do at the end of an epoch, such as evaluating or saving, does not count.
    `seconds` is wall time, `cpu_seconds` the time of all threads of the process.
    """

    def __init__(self):
        super().__init__()
        self.seconds = 0.0
        self.cpu_seconds = 0.0
        self._started = (0.0, 0.0)

    def on_epoch_begin(self, epoch, logs=None):
        self._started = time.perf_counter(), time.process_time()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds += time.perf_counter() - self._started[0]
        self.cpu_seconds += time.process_time() - self._started[1]
