"""The callbacks of a training that several processes share: process 0 alone calls them."""

import signal
from typing import Any

import keras

from dann.training.one_process import alone, share
from dann.training.process_group import ProcessGroup
from dann.training.resumable_callbacks import ResumableCallbacks
from dann.training.stop_signals import StopRequest


class LedCallbacks(keras.callbacks.CallbackList):
    """Runs the callbacks in process 0, and passes on to all processes what they change.

    Meanwhile only process 0 computes with the model, so the callbacks may evaluate it. All
    processes get what they assign to the model as a training or an epoch begins or ends. What they
    assign within an epoch is lost, and a request to stop there takes effect at the end of the
    epoch.

    Args:
        model: The model.
        group: The processes.
        inner: The callbacks, in process 0; `None` elsewhere.
        request: Whether a signal has asked this process to stop.
    """

    def __init__(
        self,
        model: keras.Model,
        group: ProcessGroup,
        inner: ResumableCallbacks | None,
        request: StopRequest,
    ):
        super().__init__(add_history=inner is None, model=model)
        self.group, self.inner, self.request = group, inner, request
        self.more_to_come = False
        self._asked = self._stops = False
        self._agree_on_place()

    def _agree_on_place(self):
        inner = self.inner
        place = inner and [inner.step, inner.epoch, inner.batch, inner.stopped]
        self.step, self.epoch, self.batch, self.stopped = self.group.first_says(place)

    def on_train_begin(self, logs=None):
        self._lead("on_train_begin", logs)

    def on_train_end(self, logs=None):
        self._lead("on_train_end", logs)

    def on_epoch_begin(self, epoch, logs=None):
        self._lead("on_epoch_begin", epoch, logs)

    def on_epoch_end(self, epoch, logs=None):
        self._lead("on_epoch_end", epoch, logs)

    def on_train_batch_begin(self, batch, logs=None):
        if self.inner is not None:
            self.inner.on_train_batch_begin(batch, logs)

    def on_train_batch_end(self, batch, logs=None):
        model: Any = self.model_of_steps
        if self.inner is not None:
            with alone(model):
                self.inner.on_train_batch_end(batch, logs)
            self._stops = self._stops or model.stop_training
            model.stop_training = False
        elif self.request and not self._asked:
            self._asked = True
            self.group.ask_to_stop(self.request.signal or signal.SIGTERM)

    @property
    def model_of_steps(self) -> Any:
        """The model as it is within an epoch; `model` would take its state out of the steps."""
        return self._model

    def _lead(self, hook, *arguments):
        """Calls the callbacks in process 0; then all processes are in the state that they left."""
        model: Any = self.model_of_steps
        changed, values = False, None
        if self.inner is not None:
            self.inner.more_to_come = self.more_to_come
            model.stop_training, self._stops = model.stop_training or self._stops, False
            with alone(model) as state:
                getattr(self.inner, hook)(*arguments)
                changed = state.changed
                values = state.values() if changed else None
        changed, model.stop_training = self.group.first_says([changed, model.stop_training])
        self._agree_on_place()
        if changed:
            share(model, values)
