"""The states of callbacks and the lengths of the files that they write, for a checkpoint."""

import hashlib
import inspect
import os
import pathlib
import pickle
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import keras

from dann.training.files_on_disk import flush_to_disk
from dann.training.plain_values import is_plain

_EVENTS = "events.out.tfevents.*"
# State of callbacks that write files; their other attributes belong to the open file.
_CHOSEN = {
    keras.callbacks.CSVLogger: ("keys",),
    keras.callbacks.TensorBoard: ("_global_train_batch", "_global_test_batch"),
}


def settings_of(callbacks: Sequence[keras.callbacks.Callback]) -> dict[str, Any]:
    """Returns digests of the callbacks' settings, taken before the training changes them.

    Settings are attributes with the name of a constructor argument, in classes that are not
    Keras's. `states_of` compares with these digests.

    Args:
        callbacks: The callbacks of the training, in any order.
    """
    return {
        name: {key: _digest(value) for key, value in _plain(callback) if key in _given(callback)}
        for name, callback in _named(callbacks)
    }


def states_of(
    callbacks: Sequence[keras.callbacks.Callback], settings: dict[str, Any]
) -> dict[str, Any]:
    """Returns the state of each callback by name, such as `"EarlyStopping 1"`.

    A callback may define `state_dict()` and `load_state_dict(state)`. The state of any other is its
    attributes that are numbers, arrays, or lists, tuples and dicts of plain values. Attributes with
    the name of a constructor argument are settings: those of Keras's classes are left out, those of
    other classes only if they have not changed since the start.

    Args:
        callbacks: The callbacks of the training, in any order.
        settings: What `settings_of` returned at the start of this process.
    """
    return {name: _attributes(callback, settings[name]) for name, callback in _named(callbacks)}


def restore(callbacks: Sequence[keras.callbacks.Callback], states: dict[str, Any]) -> None:
    """Restores the states that `states_of` has returned."""
    for name, callback in _named(callbacks):
        if name not in states:
            continue
        load = getattr(callback, "load_state_dict", None)
        if load is not None:
            load(states[name])
        else:
            its = {key: x for key, x in states[name].items() if _is_state(callback, key, x)}
            vars(callback).update(its)


def lengths_of_files(callbacks: Sequence[keras.callbacks.Callback]) -> dict[str, Any]:
    """Flushes the files that callbacks write to the disk and returns their lengths in bytes."""
    lengths = {}
    for name, callback in _named(callbacks):
        for writer in getattr(callback, "_writers", {}).values():
            writer.flush()
        paths = dict(_files(callback))
        for path in paths.values():
            flush_to_disk(path)
        lengths[name] = {relative: path.stat().st_size for relative, path in paths.items()}
    return lengths


def cut_files(callbacks: Sequence[keras.callbacks.Callback], lengths: dict[str, Any]) -> None:
    """Cuts the files back to their lengths at a checkpoint, so that no row is written twice.

    A warning on standard error names a file that is missing or has become shorter.
    """
    for name, callback in _named(callbacks):
        known = lengths.get(name, {})
        shorter = set(known)
        for relative, path in _files(callback):
            if relative not in known:
                path.unlink()
            elif path.stat().st_size >= known[relative]:
                os.truncate(path, known[relative])
                shorter.remove(relative)
        for relative in sorted(shorter):
            print(f"warning: {relative} lacks what it held at the checkpoint", file=sys.stderr)
        if isinstance(callback, keras.callbacks.CSVLogger):
            callback.append = True


def _named(callbacks) -> Iterator[tuple[str, keras.callbacks.Callback]]:
    seen: dict[str, int] = {}
    for callback in callbacks:
        kind = type(callback).__name__
        seen[kind] = seen.get(kind, 0) + 1
        yield f"{kind} {seen[kind]}", callback


def _attributes(callback, settings):
    if hasattr(callback, "state_dict"):
        return callback.state_dict()
    return {
        name: value
        for name, value in vars(callback).items()
        if _is_state(callback, name, value) and settings.get(name) != _digest(value)
    }


def _is_state(callback, name, value):
    """Whether an attribute may belong to the state; paths and Keras's settings do not."""
    if any(isinstance(callback, kind) and name in _CHOSEN[kind] for kind in _CHOSEN):
        return True
    if isinstance(callback, tuple(_CHOSEN)) or isinstance(value, str) or not is_plain(value):
        return False
    # Keras's callbacks reset some attributes from their settings when training begins.
    return name not in {"params", *_given(callback, by_keras=True)}


def _plain(callback) -> Iterator[tuple[str, Any]]:
    for name, value in vars(callback).items():
        if not isinstance(value, str) and is_plain(value):
            yield name, value


def _given(callback, by_keras=False) -> set[str]:
    """The argument names of a callback's constructors, in Keras's classes or in others."""
    return {
        name
        for kind in type(callback).__mro__
        if kind is not object and "__init__" in vars(kind)
        if kind.__module__.startswith("keras.") == by_keras
        for name in inspect.signature(kind).parameters
    }


def _digest(value):
    return hashlib.sha256(pickle.dumps(value)).hexdigest()


def _files(callback) -> Iterator[tuple[str, pathlib.Path]]:
    """Files that a callback appends to, by relative path, because the folder may move."""
    if isinstance(callback, keras.callbacks.CSVLogger):
        path = pathlib.Path(callback.filename)
        if path.is_file():
            yield path.name, path
    log_dir = getattr(callback, "log_dir", None)
    if log_dir is None:
        return
    folder = pathlib.Path(log_dir)
    of_keras = isinstance(callback, keras.callbacks.TensorBoard)
    for part in ("train", "validation") if of_keras else (".",):
        for path in sorted((folder / part).glob(_EVENTS)):
            yield str(path.relative_to(folder)), path
