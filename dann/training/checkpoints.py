"""Checkpoints of a training, and the lock of their folder."""

import contextlib
import json
import os
import pathlib
import re
import textwrap
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import filelock
import keras
import numpy as np

from dann.adaptation.replicas import strategy_scope
from dann.training.manifest import Manifest

LAST_MODEL = "last.keras"
LOCK = ".dann-lock"  # a name of this package, because the lock is deleted
_NAME = re.compile(r"step-(\d+)\.npz")
_MAX_CHECKPOINTS = 2
# Attributes in which Keras's callbacks store their state between two epochs.
_ATTRIBUTES = {"wait", "best", "best_epoch", "best_weights", "stopped_epoch", "cooldown_counter"}
_ATTRIBUTES |= {"epoch", "history"}  # of `History`


@contextlib.contextmanager
def lock_directory(directory: str | os.PathLike) -> Iterator[None]:
    """Locks a directory against other processes that lock it, during the block.

    The directory is created if it does not exist. The operating system releases the lock if the
    process dies for any reason.

    Raises:
        BlockingIOError: If another process has locked it.
    """
    path = pathlib.Path(directory) / LOCK
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(path, timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise BlockingIOError(
            "Expected a directory to which no other process writes. Received: "
            f"{directory}. Wait for the other process, or choose another directory."
        ) from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        lock.release()


class Checkpoints:
    """The last two checkpoints of a training, files `step-<n>.npz` in a folder.

    A file is complete or does not exist, even if the process dies. It contains no code. After
    training, the folder also contains the whole model, as `last.keras`.

    Args:
        folder: The folder. It does not have to exist yet.
    """

    def __init__(self, folder: str | os.PathLike):
        self.folder = pathlib.Path(folder)
        self.manifest = Manifest(folder, "training")

    def paths(self) -> list[pathlib.Path]:
        """Returns the files, the newest first."""
        files = self.folder.iterdir() if self.folder.is_dir() else ()
        steps = [(int(name[1]), path) for path in files if (name := _NAME.fullmatch(path.name))]
        return [path for _, path in sorted(steps, reverse=True)]

    def write(self, step: int, state: dict[str, Any], variables: Iterable[np.ndarray]) -> None:
        """Writes the checkpoint of a step and deletes old ones.

        Args:
            step: Number of training steps so far.
            state: Dict of numbers, texts, arrays, and lists or dicts of such values.
            variables: The values of all variables.
        """
        arrays: dict[str, Any] = {}

        def store_array(array):
            arrays[f"array_{len(arrays)}"] = array
            return {"array": f"array_{len(arrays) - 1}"}

        text = json.dumps(state, default=store_array)
        arrays |= {f"variable_{number}": value for number, value in enumerate(variables)}
        with self.manifest.write(self.folder / f"step-{step}.npz") as draft:
            np.savez(draft, state=text, **arrays)
        self.manifest.discard([old.name for old in self.paths()[_MAX_CHECKPOINTS:]])

    def newest(
        self, steps_per_epoch: int = 1, total_steps: int = 0
    ) -> tuple[dict[str, Any], list[np.ndarray]] | None:
        """Returns the state and the variables of the newest checkpoint, if there is one.

        A checkpoint within an epoch is ignored, unless it is the end of the training that resumes.

        Args:
            steps_per_epoch: Steps per epoch of the training that resumes. Defaults to `1`.
            total_steps: Steps of the training that resumes. Defaults to `0`.

        Raises:
            ValueError: If the checkpoint cannot be read.
        """
        steps = {path: int(path.stem.removeprefix("step-")) for path in self.paths()}
        at_epoch_end = (p for p, n in steps.items() if n % steps_per_epoch == 0 or n == total_steps)
        path = next(at_epoch_end, None)
        if path is None:
            return None

        def load_array(part):
            return arrays[part["array"]][()] if part.keys() == {"array"} else part

        try:
            with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                arrays = dict(file)
            count = sum(name.startswith("variable_") for name in arrays)
            state = json.loads(str(arrays["state"]), object_hook=load_array)
            return state, [arrays[f"variable_{number}"] for number in range(count)]
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise ValueError(
                f"Expected a checkpoint. Received: {path}, {error}. Delete the file to resume from "
                "the checkpoint before it."
            ) from error

    def check_free(self) -> None:
        """Raises `FileExistsError` if a file of the same name was not written by a training run."""
        self.manifest.check([*self.paths(), self.folder / LAST_MODEL])


def get_states(callbacks: Sequence[keras.callbacks.Callback]) -> dict[str, dict[str, Any]]:
    """Returns the state of each callback by name, such as `"EarlyStopping 1"`.

    The state consists of the attributes in which Keras's callbacks store their state (`wait`,
    `best`, `best_epoch`, `best_weights`, `stopped_epoch`, `cooldown_counter`, `epoch` and
    `history`), and of the attributes that `saved_attributes` of the callback names.
    """
    return {
        name: {
            attribute: getattr(callback, attribute)
            for attribute in _list_state_attributes(callback)
            if hasattr(callback, attribute)
        }
        for name, callback in _name_callbacks(callbacks)
    }


def restore_states(
    callbacks: Sequence[keras.callbacks.Callback], states: dict[str, dict[str, Any]]
) -> None:
    """Restores the states that `get_states` returned.

    A callback without a state does not change.
    """
    for name, callback in _name_callbacks(callbacks):
        state = states.get(name, {})
        # Settings, such as a path, are not part of the state. Keras has no method to restore it.
        for attribute in _list_state_attributes(callback) & state.keys():
            setattr(callback, attribute, state[attribute])


def _list_state_attributes(callback) -> set[str]:
    return _ATTRIBUTES.union(getattr(callback, "saved_attributes", ()))


def _name_callbacks(callbacks) -> list[tuple[str, Any]]:
    kinds = [type(callback).__name__ for callback in callbacks]
    # The number distinguishes callbacks of one class.
    names = [f"{kind} {kinds[: index + 1].count(kind)}" for index, kind in enumerate(kinds)]
    return list(zip(names, callbacks, strict=True))


class EpochCheckpoints(keras.callbacks.Callback):
    """Writes a checkpoint after each epoch. This callback must be the last one.

    Args:
        checkpoints: The folder of checkpoints.
        watched: All other callbacks, whose states are saved.
        settings: Settings that must be equal when the training resumes.
        total_steps: Number of steps after which the training stops, possibly within an epoch.
    """

    def __init__(self, checkpoints, watched, settings, total_steps):
        super().__init__()
        self.checkpoints, self.watched, self.settings = checkpoints, watched, settings
        self.total_steps, self._step = total_steps, 0
        self.epoch, self.stopped = 0, False
        self._state: dict[str, Any] | None = None

    def resume(self, model: Any, epochs: int) -> None:
        """Loads the newest checkpoint, if there is one."""
        checkpoint = self.checkpoints.newest(self.settings["steps_per_epoch"], self.total_steps)
        if checkpoint is None:
            return
        self._state, arrays = checkpoint
        _check_settings(self._state["settings"], self.settings)
        self.epoch, self.stopped = self._state["epoch"], self._state["stopped"]
        if self.epoch > epochs:
            raise ValueError(
                f"Expected epochs >= {self.epoch}, the epochs of the checkpoint. Received: "
                f"epochs={epochs}"
            )
        for variable, array in zip(get_variables(model), arrays, strict=True):
            # NumPy stores bfloat16 as raw bytes.
            variable.assign(array.view("bfloat16") if array.dtype.kind == "V" else array)

    def on_train_begin(self, logs=None):
        if self._state is not None:  # callbacks reset their values when the training begins
            restore_states(self.watched, self._state["callbacks"])

    def on_train_batch_end(self, batch, logs=None):
        self._step = self.epoch * self.params["steps"] + batch + 1
        if self._step == self.total_steps and batch + 1 < self.params["steps"]:
            self.model.stop_training = True

    def on_epoch_end(self, epoch, logs=None):
        arrays = [keras.ops.convert_to_numpy(v) for v in get_variables(self.model)]
        self.epoch, self.stopped = epoch + 1, self.model.stop_training
        state = {
            "settings": self.settings,
            "epoch": self.epoch,
            "stopped": self.stopped,
            "callbacks": get_states(self.watched),
        }
        self.checkpoints.write(self._step, state, arrays)
        if self.stopped or self.epoch == self.params["epochs"]:
            with self.checkpoints.manifest.write(self.checkpoints.folder / LAST_MODEL) as draft:
                self.model.save(draft)


def get_variables(model: Any) -> list[Any]:
    """Returns all variables of a training: weights, seeds, and the optimizer's variables."""
    if not model.optimizer.built:
        with strategy_scope(model):
            model.optimizer.build(model.trainable_variables)
    return [*model.variables, *model.optimizer.variables]


def _check_settings(saved, current):
    for key, value in current.items():
        if saved.get(key) != value:
            texts = [textwrap.shorten(str(text), 200) for text in (saved.get(key), value)]
            raise ValueError(
                "Expected the settings with which the training began. "
                f"Received: {key} {texts[0]} then, {texts[1]} now"
            )
