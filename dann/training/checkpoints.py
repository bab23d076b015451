"""Checkpoints of a training on disk. An interrupted write leaves no broken checkpoint."""

import hashlib
import json
import os
import pathlib
import shutil
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import numpy as np

from dann.data.array_archive import read_archive
from dann.training.files_on_disk import flush_to_disk, replacing
from dann.training.keras_file import check_keras_file
from dann.training.run_directory import LAST_MODEL, ResumeError, checkpoint_name, step_of

_DRAFT = ".part"
_MODEL, _ARRAYS, _STATE, _SUMS = "model.keras", "arrays.npz", "state.json", "SHA256SUMS"


class Checkpoint:
    """A complete checkpoint: the state of a training after a step.

    Args:
        path: Its folder.

    Raises:
        ValueError: If a file is missing or has changed since it was written.
    """

    def __init__(self, path: pathlib.Path):
        self.path = path
        try:
            _check_sums(path)
            state = json.loads((path / _STATE).read_text(encoding="utf-8"))
            self.arrays = read_archive(path / _ARRAYS)[0]
        except (OSError, ValueError, RecursionError) as error:
            raise ValueError(f"Expected a whole checkpoint. Received: {path}, {error}") from error
        self.state: dict[str, Any] = state

    def load_into(self, model: keras.Model) -> None:
        """Loads the weights, the optimizer and the seeds into a built model.

        Raises:
            ResumeError: If the checkpoint belongs to another model or optimizer.
        """
        try:
            check_keras_file(self.path / _MODEL)
            model.load_weights(self.path / _MODEL)
        except Exception as error:  # a strange file can raise anything
            raise ResumeError(
                "A training must be resumed with the model and the optimizer that it began with. "
                f"Received: {type(model).__name__}, which does not fit {self.path}"
            ) from error


class Checkpoints:
    """The checkpoints in a folder, `step-<n>` each, and the model of the newest as `last.keras`.

    A checkpoint is written to a draft folder, which is renamed once all of it is on the disk. If
    the process dies meanwhile, the earlier checkpoints are intact and the draft is ignored.

    Args:
        folder: The folder, which need not exist yet.
        keep: How many of the newest to keep.
    """

    def __init__(self, folder: str | os.PathLike, keep: int = 2):
        self.folder = pathlib.Path(folder)
        self.keep = keep

    def write(
        self,
        step: int,
        model: keras.Model,
        state: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
    ) -> pathlib.Path:
        """Writes the checkpoint of a step and deletes old ones; returns its folder.

        Args:
            step: Steps of the training so far.
            model: The model with its optimizer, as Keras saves it.
            state: The rest of the state, in values that JSON can hold.
            arrays: Arrays that `state` refers to.
        """
        path = self.folder / checkpoint_name(step)
        draft = path.with_suffix(_DRAFT)
        self._remove_drafts()
        draft.mkdir(parents=True)
        try:
            model.save(draft / _MODEL)
            np.savez(draft / _ARRAYS, **arrays)  # pyright: ignore[reportArgumentType]
            (draft / _STATE).write_text(json.dumps(state), encoding="utf-8")
            names = (_MODEL, _ARRAYS, _STATE)
            sums = [f"{_digest(draft / name)}  {name}\n" for name in names]
            (draft / _SUMS).write_text("".join(sums), encoding="utf-8")
            for name in (*names, _SUMS):
                flush_to_disk(draft / name)
            flush_to_disk(draft)
            if path.exists() and not _is_ours(path):
                raise FileExistsError(
                    f"Expected a folder of checkpoints alone. Received: {path} with other files"
                )
            if path.exists():  # a broken one, or one of a training that started over
                shutil.rmtree(path)
            draft.rename(path)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        flush_to_disk(self.folder)
        self._offer(path)
        for old in [path for at, path in self._by_step() if at < step][self.keep - 1 :]:
            shutil.rmtree(old)
        return path

    def newest(self) -> Checkpoint | None:
        """Returns the newest complete checkpoint, if any; warns of broken ones on standard error.

        Raises:
            ResumeError: If there are checkpoints, and all of them are broken.
        """
        paths = [path for _, path in self._by_step()]
        for path in paths:
            try:
                return Checkpoint(path)
            except ValueError as error:
                print(f"warning: {error}; it is left out", file=sys.stderr)
        if paths:
            raise ResumeError(
                f"Expected a whole checkpoint in {self.folder}; start over with resume=false. "
                f"Received: {len(paths)} that are broken"
            )
        return None

    def discard(self) -> list[pathlib.Path]:
        """Deletes all checkpoints, before a training starts again; returns their paths."""
        self._remove_drafts()
        paths = [path for _, path in self._by_step()]
        for path in paths:
            shutil.rmtree(path)
        (self.folder / LAST_MODEL).unlink(missing_ok=True)
        return paths

    def _by_step(self) -> list[tuple[int, pathlib.Path]]:
        """The steps and folders of checkpoints, newest first."""
        found = self.folder.iterdir() if self.folder.is_dir() else ()
        steps = [(step_of(path.name), path) for path in found]
        ours = [(step, path) for step, path in steps if step is not None and _is_ours(path)]
        return sorted(ours, reverse=True)

    def _remove_drafts(self):
        for draft in self.folder.glob(f"*{_DRAFT}"):
            if step_of(draft.stem) is not None and _is_ours(draft):
                shutil.rmtree(draft)

    def _offer(self, path):
        """Copies the checkpoint's model to the file that `RunDirectory.model` loads."""
        # A copy, because writing to a link would change the checkpoint.
        with replacing(self.folder / LAST_MODEL) as draft:
            shutil.copyfile(path / _MODEL, draft)


def _is_ours(path):
    """Whether a folder holds only files of a checkpoint, so that it may be deleted."""
    names = {_MODEL, _ARRAYS, _STATE, _SUMS}
    return path.is_dir() and all(entry.name in names for entry in path.iterdir())


def _digest(path):
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_sums(path):
    sums = dict(_lines(path / _SUMS))
    if set(sums) != {_MODEL, _ARRAYS, _STATE}:
        raise ValueError(f"whose {_SUMS} is broken")
    for name, digest in sums.items():
        if _digest(path / name) != digest:
            raise ValueError(f"whose {name} is not what was written")


def _lines(path: pathlib.Path) -> Iterator[tuple[str, str]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        digest, _, name = line.partition("  ")
        yield name, digest
