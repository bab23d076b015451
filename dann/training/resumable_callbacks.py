"""The callbacks of a training that is spread over several calls of `fit` or processes."""

import contextlib
import importlib.metadata
import os
import random
import sys
from typing import Any

import keras
import numpy as np

from dann.adaptation.replicas import devices_of, sharing_weights
from dann.adaptation.training_state import (
    KeepTrained,
    averages_weights,
    put_trained_back,
    values_of,
)
from dann.training.callback_states import (
    cut_files,
    lengths_of_files,
    restore,
    settings_of,
    states_of,
)
from dann.training.checkpoint_times import CheckpointTimes
from dann.training.checkpoints import Checkpoint, Checkpoints
from dann.training.non_finite import check_weights
from dann.training.plain_values import packed, unpacked
from dann.training.run_directory import ResumeError, checkpoint_name
from dann.training.stop_signals import StopRequest

# What `ResumableCallbacks` writes to a checkpoint besides the model, and the types.
_STATE = {
    **dict.fromkeys(("begun", "stopped"), bool),
    **dict.fromkeys(("step", "epoch", "batch", "steps_per_epoch"), int),
    **dict.fromkeys(("files", "callbacks", "made_by"), dict),
    **dict.fromkeys(("random", "numpy_random"), tuple),
    **{"metrics": list, "optimizer": str, "pairs": dict | None},
}


class ResumableCallbacks(keras.callbacks.CallbackList):
    """Passes Keras's calls on to callbacks as if there were one call of `fit` in one process.

    It writes a checkpoint after all callbacks have been called, and resumes from one. The callbacks
    see one start and one end of training. In the rest of an interrupted epoch, the numbers of the
    batches continue where they stopped.

    Args:
        callbacks: The callbacks, with a `keras.callbacks.History`.
        checkpoints: Where to write, or `None`.
        found: The checkpoint to resume from, or `None`; see `state_of`.
        times: When to write.
        request: Whether a signal has asked the training to stop.
        identity: What the batches depend on; see `identity_of`.
        **params: What Keras's `CallbackList` takes, `steps` and `epochs` among them.
    """

    def __init__(
        self,
        callbacks: list[keras.callbacks.Callback],
        checkpoints: Checkpoints | None,
        found: Checkpoint | None,
        times: CheckpointTimes,
        request: StopRequest,
        identity: Any,
        **params: Any,
    ):
        state = {"begun": False, "step": 0, "epoch": 0, "batch": 0, "stopped": False}
        if found:
            state = state_of(found)
            times.written(state["step"])
            with _told_as_foreign(found):
                cut_files(callbacks, state["files"])  # before any callback opens its own
        self.watched, self.settings = list(callbacks), settings_of(callbacks)
        if averages_weights(params["model"].optimizer):
            callbacks = [*callbacks, KeepTrained()]
        super().__init__(callbacks, **params)
        self.checkpoints, self.found, self.times, self.request = checkpoints, found, times, request
        self.state, self.identity = state, identity
        self.made_by = made_by(params["model"])  # before process 0 of several has it to itself
        self.step, self.epoch, self.batch = state["step"], state["epoch"], state["batch"]
        self.stopped = state["stopped"]
        self.offset = self.batch
        self.more_to_come = False  # another call of `fit` continues this training
        self._begun = False

    def on_train_begin(self, logs=None):
        if self._begun:
            return
        if self.found:
            self._restore()
        else:
            put_trained_back(self._attached())
            self._write()
        self._begun = True
        super().on_train_begin(logs)
        if self.state["begun"]:
            self._restore()  # once more, because callbacks set values as they begin

    def _restore(self):
        model = self._attached()
        if self.state["optimizer"] != _kind_of(model.optimizer):
            raise ResumeError(
                f"Expected the optimizer of {self.found.path}, {self.state['optimizer']}. "
                f"Received: {_kind_of(model.optimizer)}"
            )
        self.found.load_into(model)
        with _told_as_foreign(self.found):
            if self.state["begun"]:
                restore(self.watched, self.state["callbacks"])
            random.setstate(self.state["random"])
            np.random.set_state(self.state["numpy_random"])

    def on_epoch_begin(self, epoch, logs=None):
        super().on_epoch_begin(epoch, logs)
        self.epoch, self.batch = epoch, self.offset
        if self.offset:  # in the middle of an epoch, and Keras has reset its metrics
            self._restore()
            metrics = self.state["metrics"]
            with _told_as_foreign(self.found):
                for variable, value in zip(self.model.metrics_variables, metrics, strict=True):
                    variable.assign(value)

    def on_train_batch_begin(self, batch, logs=None):
        self._first = batch
        super().on_train_batch_begin(self.offset + batch, logs)

    def on_train_batch_end(self, batch, logs=None):
        super().on_train_batch_end(self.offset + batch, logs)
        self.step += batch + 1 - self._first
        self.batch = self.offset + batch + 1
        ends = self.batch >= self.params["steps"] or self._model.stop_training
        if not ends and (self.request or self.times.is_due(self.step, False)):
            self._write()
            self._stop_if_asked()

    def on_epoch_end(self, epoch, logs=None):
        super().on_epoch_end(epoch, logs)
        self.epoch, self.batch, self.offset = epoch + 1, 0, 0
        self.stopped = self.model.stop_training
        last = self.stopped or self.epoch == self.params["epochs"]
        if last or self.request or self.times.is_due(self.step, True):
            self._write()
        self._stop_if_asked()

    def on_train_end(self, logs=None):
        if not self.more_to_come or self.stopped:
            super().on_train_end(logs)
        else:
            put_trained_back(self._attached())

    def _attached(self) -> Any:
        """The model with all its state, which JAX keeps elsewhere within an epoch."""
        return self.model

    def _stop_if_asked(self):
        if self.request:
            print(f"Stopped after step {self.step}.", flush=True)
            self.request.stop()

    def _write(self):
        if self.checkpoints is None:
            return
        arrays: dict[str, np.ndarray] = {}
        model = self._attached()
        check_weights(model)  # weights that are not finite must not replace a good checkpoint
        state = {
            "begun": self._begun,
            "step": self.step,
            "epoch": self.epoch,
            "batch": self.batch,
            "steps_per_epoch": self.params["steps"],
            "stopped": self.stopped,
            "files": lengths_of_files(self.watched),
            "callbacks": states_of(self.watched, self.settings),
            "metrics": values_of(model.metrics_variables),
            "random": random.getstate(),
            "numpy_random": np.random.get_state(),
            "made_by": self.made_by,
            "optimizer": _kind_of(model.optimizer),
            "pairs": self.identity,
        }
        self.checkpoints.write(self.step, model, packed(state, arrays), arrays)
        self.times.written(self.step)


def state_of(found: Checkpoint) -> dict[str, Any]:
    """Returns the state of a training in a checkpoint.

    Raises:
        ResumeError: If it does not hold such a state, or holds that of another step.
    """
    with _told_as_foreign(found):
        state = unpacked(found.state, found.arrays)
        wrong = [key for key, kind in _STATE.items() if not isinstance(state[key], kind)]
        if wrong or found.path.name != checkpoint_name(state["step"]):
            raise ValueError(f"wrong values of {', '.join(wrong) or 'step'}")
        return state


@contextlib.contextmanager
def _told_as_foreign(found):
    """Turns any error into a `ResumeError` that names the checkpoint."""
    try:
        yield
    except Exception as error:  # what comes from a strange file can raise anything
        raise ResumeError(
            f"Expected the state of this training in {found.path}. Received: another, or a broken "
            f"one ({type(error).__name__})"
        ) from error


def made_by(model: keras.Model) -> dict[str, Any]:
    """Returns what exact results depend on: versions, and numbers of devices and cores."""
    return {
        "backend": keras.backend.backend(),
        "dann": sys.modules["dann"].__version__,
        "keras": keras.__version__,
        "numpy": np.__version__,
        keras.backend.backend(): importlib.metadata.version(keras.backend.backend()),
        "devices": devices_of(model) * sharing_weights(),
        "model_parallel": sharing_weights(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
    }


def identity_of(pairs: Any) -> Any:
    """Returns what the batches depend on: settings of their order and, in `contents`, the data.

    It is `None` if unknown.
    """
    if not hasattr(pairs, "identity"):
        return None
    return {**pairs.identity, "contents": getattr(pairs, "contents", None)}


def _kind_of(optimizer):
    return f"{type(optimizer).__name__} with {len(optimizer.variables)} variables"
