"""The states of callbacks and the lengths of the files that they write, for a checkpoint."""

import inspect
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import keras

from dann.training.plain_values import is_plain
from dann.training.whole_files import flush_to_disk

_EVENTS = "events.out.tfevents.*"
# Of those that write files, whose other attributes belong to the open file.
_CHOSEN = {
    keras.callbacks.CSVLogger: ("keys",),
    keras.callbacks.TensorBoard: ("_global_train_batch", "_global_test_batch"),
}


def states_of(callbacks: Sequence[keras.callbacks.Callback]) -> dict[str, Any]:
    """Returns the state of each callback by its class and its number among those of the class.

    A callback may define `state_dict()` and `load_state_dict(state)`. The state of others is the
    attributes that are numbers, arrays, or lists, tuples and dicts of plain values, except those
    that the constructor has arguments for.

    Args:
        callbacks: The callbacks of the training, in any order.
    """
    return {name: _attributes(callback) for name, callback in _named(callbacks)}


def restore(callbacks: Sequence[keras.callbacks.Callback], states: dict[str, Any]) -> None:
    """Gives callbacks the states that `states_of` has returned."""
    for name, callback in _named(callbacks):
        if name not in states:
            continue
        load = getattr(callback, "load_state_dict", None)
        if load is not None:
            load(states[name])
        else:
            vars(callback).update(states[name])


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
    """Cuts the files back to their lengths at a checkpoint, so that no row is written twice."""
    for name, callback in _named(callbacks):
        known = lengths.get(name, {})
        for relative, path in _files(callback):
            if relative not in known:
                path.unlink()
            elif path.stat().st_size > known[relative]:
                os.truncate(path, known[relative])
        if isinstance(callback, keras.callbacks.CSVLogger):
            callback.append = True


def _named(callbacks) -> Iterator[tuple[str, keras.callbacks.Callback]]:
    seen: dict[str, int] = {}
    for callback in callbacks:
        kind = type(callback).__name__
        seen[kind] = seen.get(kind, 0) + 1
        yield f"{kind} {seen[kind]}", callback


def _attributes(callback):
    if hasattr(callback, "state_dict"):
        return callback.state_dict()
    chosen = next((_CHOSEN[kind] for kind in _CHOSEN if isinstance(callback, kind)), None)
    if chosen is not None:
        return {name: value for name, value in vars(callback).items() if name in chosen}
    settings = {"params", *inspect.signature(type(callback)).parameters}
    return {
        name: value
        for name, value in vars(callback).items()
        if name not in settings and not isinstance(value, str) and is_plain(value)
    }


def _files(callback) -> Iterator[tuple[str, pathlib.Path]]:
    """Files that a callback appends to, by their place, which may be elsewhere after a move."""
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
