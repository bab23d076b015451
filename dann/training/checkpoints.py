"""Files of a training that survive its end: whole or not there, and checkpoints among them."""

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

LAST_MODEL = "last.keras"
LOCK = "run.lock"
_NAME = re.compile(r"step-(\d+)\.npz")
_KEPT = 2
# The state of Keras's own callbacks between two epochs, by attribute.
_ATTRIBUTES = {"wait", "best", "best_epoch", "best_weights", "stopped_epoch", "cooldown_counter"}
_ATTRIBUTES |= {"epoch", "history"}  # of `History`


@contextlib.contextmanager
def atomic_write(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields the path of a draft, which replaces the file at the end of the block.

    The folder is created if it does not exist. The draft is flushed to the disk before it is
    renamed. Whatever interrupts the block, the file stays as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.stem}.part{path.suffix}")
    try:
        yield draft
        if draft.exists():
            with draft.open("rb+") as file:
                os.fsync(file.fileno())
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextlib.contextmanager
def lock_directory(directory: str | os.PathLike) -> Iterator[None]:
    """Lets no other process that asks for it write to a directory during the block.

    It creates the directory if it does not exist. The operating system releases the lock when the
    process dies, whatever the cause.

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
            "Expected a directory to which nothing else writes; wait for the other process, or "
            f"choose another. Received: {directory}"
        ) from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        lock.release()


class Checkpoints:
    """The checkpoints in a folder, a file `step-<n>.npz` each, of which the last two are kept.

    A file is whole or not there, whenever the process dies. It holds no code. At the end of a
    training the folder holds the whole model, too, as `last.keras`.

    Args:
        folder: The folder, which need not exist yet.
    """

    def __init__(self, folder: str | os.PathLike):
        self.folder = pathlib.Path(folder)

    def paths(self) -> list[pathlib.Path]:
        """Returns the files, the newest first."""
        found = self.folder.iterdir() if self.folder.is_dir() else ()
        steps = [(int(name[1]), path) for path in found if (name := _NAME.fullmatch(path.name))]
        return [path for _, path in sorted(steps, reverse=True)]

    def write(self, step: int, state: dict[str, Any], variables: Iterable[np.ndarray]) -> None:
        """Writes the checkpoint of a step and deletes old ones.

        Args:
            step: Steps of the training so far.
            state: Numbers, text, lists, dicts and arrays.
            variables: The values of all variables.
        """
        arrays: dict[str, Any] = {}

        def named(array):
            arrays[f"array_{len(arrays)}"] = array
            return {"array": f"array_{len(arrays) - 1}"}

        text = json.dumps(state, default=named)
        arrays |= {f"variable_{number}": value for number, value in enumerate(variables)}
        with atomic_write(self.folder / f"step-{step}.npz") as draft:
            np.savez(draft, state=text, **arrays)
        for old in self.paths()[_KEPT:]:
            old.unlink()

    def save_model(self, model: keras.Model) -> None:
        """Saves the whole model, its optimizer included."""
        with atomic_write(self.folder / LAST_MODEL) as draft:
            model.save(draft)

    def newest(self) -> tuple[dict[str, Any], list[np.ndarray]] | None:
        """Returns the state and the variables of the newest checkpoint, if there is one.

        Raises:
            ValueError: If it cannot be read.
        """
        path = next(iter(self.paths()), None)
        if path is None:
            return None
        try:
            with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                held = dict(file)
            count = sum(name.startswith("variable_") for name in held)
            state = json.loads(str(held["state"]), object_hook=lambda part: _array(part, held))
            return state, [held[f"variable_{number}"] for number in range(count)]
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise ValueError(
                f"Expected a checkpoint; delete it to go on from the one before. Received: {path}, "
                f"{error}"
            ) from error

    def files(self) -> list[pathlib.Path]:
        """Returns the checkpoints, the newest first, and the last model, which may be missing."""
        return [*self.paths(), self.folder / LAST_MODEL]

    def discard(self) -> None:
        """Deletes all checkpoints and the last model."""
        for path in self.files():
            path.unlink(missing_ok=True)


def _array(part, held):
    return held[part["array"]][()] if part.keys() == {"array"} else part


def get_states(callbacks: Sequence[keras.callbacks.Callback]) -> dict[str, dict[str, Any]]:
    """Returns the state of each callback by name, such as `"EarlyStopping 1"`.

    It is those of the attributes `wait`, `best`, `best_epoch`, `best_weights`, `stopped_epoch`,
    `cooldown_counter`, `epoch` and `history` that it has, which is what Keras's own callbacks keep
    from one epoch to the next, and of those that its `saved_attributes` names.
    """
    return {
        name: {one: getattr(callback, one) for one in _kept(callback) if hasattr(callback, one)}
        for name, callback in _named(callbacks)
    }


def restore_states(
    callbacks: Sequence[keras.callbacks.Callback], states: dict[str, dict[str, Any]]
) -> None:
    """Restores the states that `get_states` has returned.

    A callback that was not there then begins anew.
    """
    for name, callback in _named(callbacks):
        state = states.get(name, {})
        for attribute in _kept(callback) & state.keys():  # no setting, such as a path
            setattr(callback, attribute, state[attribute])  # Keras's own have no other way


def _kept(callback) -> set[str]:
    return _ATTRIBUTES.union(getattr(callback, "saved_attributes", ()))


def _named(callbacks) -> list[tuple[str, Any]]:
    kinds = [type(callback).__name__ for callback in callbacks]
    names = [f"{kind} {kinds[: place + 1].count(kind)}" for place, kind in enumerate(kinds)]
    return list(zip(names, callbacks, strict=True))


class EpochCheckpoints(keras.callbacks.Callback):
    """Writes a checkpoint after each epoch; the last of the callbacks.

    Args:
        checkpoints: Where to write.
        watched: All other callbacks.
        settings: What must be the same when the training resumes.
    """

    def __init__(self, checkpoints, watched, settings):
        super().__init__()
        self.checkpoints, self.watched, self.settings = checkpoints, watched, settings
        self.epoch, self.stopped = 0, False
        self._found: dict[str, Any] | None = None

    def resume(self, model: Any, epochs: int) -> None:
        """Loads the newest checkpoint, if there is one."""
        found = self.checkpoints.newest()
        if found is None:
            return
        self._found, arrays = found
        _check_same(self._found["settings"], self.settings)
        self.epoch, self.stopped = self._found["epoch"], self._found["stopped"]
        if self.epoch > epochs:
            raise ValueError(f"Expected at least {self.epoch} epochs. Received: epochs={epochs}")
        for variable, array in zip(get_variables(model), arrays, strict=True):
            variable.assign(array.view("bfloat16") if array.dtype.kind == "V" else array)

    def on_train_begin(self, logs=None):
        if self._found is not None:  # once more, as callbacks set values when they begin
            restore_states(self.watched, self._found["callbacks"])

    def check_directory(self) -> None:
        """Raises `FileNotFoundError` if the directory is no longer there."""
        if not (self.checkpoints.folder / LOCK).exists():
            raise FileNotFoundError(
                "A directory that is moved or deleted while its run trains ends it; where it is "
                f"now, resume=true goes on. Received: no {self.checkpoints.folder}"
            )

    def on_epoch_end(self, epoch, logs=None):
        self.check_directory()
        arrays = [keras.ops.convert_to_numpy(one) for one in get_variables(self.model)]
        self.epoch, self.stopped = epoch + 1, self.model.stop_training
        state = {
            "settings": self.settings,
            "epoch": self.epoch,
            "stopped": self.stopped,
            "callbacks": get_states(self.watched),
        }
        self.checkpoints.write(self.epoch * self.params["steps"], state, arrays)
        if self.stopped or self.epoch == self.params["epochs"]:
            self.checkpoints.save_model(self.model)


def get_variables(model: Any) -> list[Any]:
    """Returns all state of a training: weights, seeds, and the optimizer's variables."""
    if not model.optimizer.built:
        with strategy_scope(model):
            model.optimizer.build(model.trainable_variables)
    return [*model.variables, *model.optimizer.variables]


def _check_same(then, now):
    for key, value in now.items():
        if then.get(key) != value:
            told = [textwrap.shorten(str(one), 200) for one in (then.get(key), value)]
            raise ValueError(
                "A training must be resumed with what it began with. "
                f"Received: {key} {told[0]} then, {told[1]} now"
            )
