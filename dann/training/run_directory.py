"""The files of a run. Only this module knows their names."""

import contextlib
import csv
import json
import os
import pathlib
import re
import shutil
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dann.training.directory_claim import LOCK
from dann.training.files_on_disk import replace_folder, replacing
from dann.training.keras_file import KerasFileError, check_declared_size, check_keras_file

_TRAINED = "a finished run of scripts/train.py"
LAST_MODEL = "last.keras"  # among the checkpoints
_CHECKPOINT = re.compile(r"step-(\d+)")


def checkpoint_name(step: int) -> str:
    """Returns the name of the checkpoint folder of a step."""
    return f"step-{step}"


def step_of(name: str) -> int | None:
    """Returns the step of a checkpoint by its folder's name, or `None` for any other name."""
    found = _CHECKPOINT.fullmatch(name)
    return int(found[1]) if found else None


class ResumeError(ValueError):
    """A training cannot resume from its checkpoint with what it was given."""


class RunDirectory:
    """The files of a run by name: writes each completely or not at all, and loads them.

    A file that cannot be loaded raises an error of one line: `FileNotFoundError` if it is missing,
    `ValueError` if it cannot be read. Model files are loaded in Keras's safe mode, which runs no
    code from them.

    Args:
        path: The directory, which need not exist yet.

    Example:

    >>> from dann.training import RunDirectory
    >>> run = RunDirectory("run")
    >>> run.is_finished()
    False
    >>> run.summary()
    Traceback (most recent call last):
        ...
    FileNotFoundError: Expected a finished run of scripts/train.py. Received: no run/summary.json
    """

    def __init__(self, path: str | os.PathLike):
        self.path = pathlib.Path(path)
        self.config_file = self.path / ".hydra" / "config.yaml"
        self.log_file = self.path / "log.txt"  # what a run in a process of its own printed
        self.summary_file = self.path / "summary.json"
        self.metrics_file = self.path / "metrics.csv"
        self.oracle_file = self.path / "oracle.csv"
        self.classifier_file = self.path / "classifier.keras"
        self.classes_file = self.path / "target_classes.npz"
        self.checkpoints = self.path / "checkpoints"
        self.baseline_checkpoints = self.checkpoints / "source_only"
        self.settings_file = self.checkpoints / "settings.json"
        self._kept_config = self.checkpoints / "hydra"
        self.checkpoint_file = self.checkpoints / LAST_MODEL
        self.diagnosis_file = self.path / "diagnosis.json"
        self.report_file = self.path / "report.html"
        self.figures = self.path / "figures"
        self.exports = self.path / "export"

    def __str__(self) -> str:
        return str(self.path)

    def is_finished(self) -> bool:
        """Returns whether the run is finished, that is, has a summary, which is written last."""
        try:
            self.summary()
        except (OSError, ValueError):
            return False
        return True

    def is_unused(self) -> bool:
        """Returns whether the directory exists and holds only the config, logs and the lock."""
        kept = (self.config_file.parent.name, LOCK)
        return self.path.is_dir() and all(
            entry.name in kept or entry.suffix == ".log" for entry in self.path.iterdir()
        )

    def config(self) -> str:
        """Returns the composed config as YAML, references unresolved."""
        return _text(self.config_file, "a run directory of scripts/train.py")

    def summary(self) -> dict[str, Any]:
        """Returns the results of the run: accuracies, times, label-free scores."""
        return _named_values(self.summary_file, "a summary")

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Writes the summary. A run that has one is complete."""
        with replacing(self.summary_file) as draft:
            draft.write_text(json.dumps(summary, indent=2) + "\n")

    def discard_summary(self) -> None:
        """Deletes the results, so that a restarted run does not look finished."""
        for path in (self.summary_file, self.classifier_file, self.classes_file):
            path.unlink(missing_ok=True)

    def discard_results(self) -> None:
        """Deletes all that tells of an earlier run but its checkpoints, logs and exports."""
        self.discard_summary()
        told = (self.metrics_file, self.oracle_file, self.diagnosis_file, self.report_file)
        for path in told:
            path.unlink(missing_ok=True)
        shutil.rmtree(self.figures, ignore_errors=True)

    def has_checkpoints(self) -> bool:
        """Returns whether there is a checkpoint from which the run could resume."""
        folders = filter(pathlib.Path.is_dir, (self.checkpoints, self.baseline_checkpoints))
        return any(
            step_of(path.name) is not None for folder in folders for path in folder.iterdir()
        )

    def keep_settings(self, settings: Mapping[str, Any]) -> None:
        """Saves the settings of a new run and Hydra's files, to compare when it is resumed."""
        with replacing(self.settings_file) as draft:
            draft.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        if self.config_file.parent.is_dir():
            replace_folder(self.config_file.parent, self._kept_config, self.checkpoints)

    def settings(self) -> dict[str, Any] | None:
        """Returns the settings that the run began with, or `None` if they were not kept."""
        if not self.settings_file.is_file():
            return None
        return _named_values(self.settings_file, "settings")

    def put_config_back(self) -> None:
        """Restores the config that the run began with, which a later command has overwritten."""
        if self._kept_config.is_dir():
            replace_folder(self._kept_config, self.config_file.parent, self.checkpoints)

    def metrics(self) -> dict[str, list[str]]:
        """Returns the columns of the epochs' metrics by name, as text."""
        return _columns(self.metrics_file, f"{_TRAINED} with `callbacks=default`")

    def oracle_curve(self) -> dict[str, list[str]]:
        """Returns the columns `step`, `cpu_seconds` and `target/accuracy`, as text."""
        wanted = "a finished run, and `trainer.oracle_curve=true` in it"
        return _columns(self.oracle_file, wanted)

    def write_oracle_curve(self, rows: Iterable[Sequence[Any]]) -> None:
        """Writes step, CPU seconds and target accuracy of every epoch so far."""
        with replacing(self.oracle_file) as draft, draft.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("step", "cpu_seconds", "target/accuracy"))
            writer.writerows(rows)

    def classifier(self) -> Any:
        """Returns the trained classifier, uncompiled."""
        return load_model(_present(self.classifier_file, _TRAINED), compile=False)

    def save_classifier(self, classifier: Any) -> None:
        """Saves the classifier."""
        with replacing(self.classifier_file) as draft:
            classifier.save(draft)

    def target_classes(self) -> tuple[str, Any]:
        """Returns the digest of some target examples and the classes predicted for them."""
        import numpy as np

        wanted = f"{_TRAINED}, with scores (`selection.scores`)"
        path = _present(self.classes_file, wanted)
        try:
            with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                return str(file["digest"]), file["classes"]
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error) as error:
            raise ValueError(f"Expected {wanted}. Received: {path}, which is broken") from error

    def write_target_classes(self, digest: str, classes: Any) -> None:
        """Writes the classes predicted for some target examples, whose digest tells them."""
        import numpy as np

        with replacing(self.classes_file) as draft, draft.open("wb") as file:
            np.savez_compressed(file, digest=digest, classes=classes)

    def model(self) -> Any:
        """Returns the whole model of the last epoch, discriminator and optimizer included.

        `selection.keep` changes only the classifier, which holds no discriminator.
        """
        wanted = "a run of scripts/train.py with its checkpoint, which `checkpoint.every` asks for"
        return load_model(_present(self.checkpoint_file, wanted))

    def check_writable(self) -> None:
        """Raises `OSError` if a file or a folder of a diagnosis could not be written."""
        for path in (self.diagnosis_file, self.report_file):
            if path.is_dir():
                raise IsADirectoryError(f"Expected to write a file. Received: the directory {path}")
        if self.figures.exists() and not self.figures.is_dir():
            raise NotADirectoryError(
                f"Expected a directory for figures. Received: the file {self.figures}"
            )
        self.check_not_linked(self.figures)
        for folder in (self.path, self.figures):
            if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK):
                raise PermissionError(
                    f"Expected a directory that can be written to. Received: {folder}"
                )

    def check_not_linked(self, folder: pathlib.Path) -> None:
        """Raises `NotADirectoryError` if a folder of the run is a link, which may lead anywhere."""
        if folder.is_symlink():
            raise NotADirectoryError(
                f"Expected a folder of the run itself. Received: the link {folder}"
            )

    def write_diagnosis(self, found: str, page: str, figures: Mapping[str, bytes]) -> None:
        """Writes a diagnosis, its page and its figures; if an error occurs, none of them.

        Figures of an earlier diagnosis that this one does not replace are deleted.

        Args:
            found: The diagnosis as JSON.
            page: The report as HTML.
            figures: SVG by name.

        Raises:
            OSError: If `check_writable` does, or the disk is full.
        """
        self.check_writable()
        contents = {self.figures / f"diagnosis_{name}.svg": svg for name, svg in figures.items()}
        contents[self.diagnosis_file] = found.encode()
        contents[self.report_file] = page.encode()
        self.figures.mkdir(exist_ok=True)
        with contextlib.ExitStack() as stack:  # none moves to its place before all are written
            for path, content in contents.items():
                stack.enter_context(replacing(path)).write_bytes(content)
        for path in self.figures.glob("diagnosis_*.svg"):
            if path not in contents:
                path.unlink()


def load_model(path: pathlib.Path, compile: bool = True) -> Any:
    """Loads a `.keras` file in safe mode, with its optimizer and losses if `compile`.

    Raises:
        KerasFileError: If it cannot be read, or holds code. Keras's own error is its `__cause__`;
            that one may advise you to trust the file.
    """
    import keras

    import dann.adaptation  # noqa: F401  registers the classes that a file may hold

    check_keras_file(path)
    check_declared_size(path)
    try:
        return keras.models.load_model(path, compile=compile, safe_mode=True)
    except Exception as error:  # a strange config can raise anything
        raise KerasFileError(
            "Expected a Keras model of classes that Keras and this package know, without code, and "
            f"with its weights. Received: {path}, which cannot be read as one"
        ) from error


def _present(path: pathlib.Path, wanted: str) -> pathlib.Path:
    if not path.is_file():
        raise FileNotFoundError(f"Expected {wanted}. Received: no {path}")
    return path


def _text(path: pathlib.Path, wanted: str) -> str:
    try:
        return _present(path, wanted).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"Expected {wanted}. Received: {path}, which is not text") from error


def _named_values(path: pathlib.Path, what: str) -> dict[str, Any]:
    text = _text(path, _TRAINED)
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"Expected {what} in JSON. Received: {path}, which is broken") from error
    if not isinstance(values, dict):
        raise ValueError(f"Expected {what} by name. Received: {path}")
    return values


def _columns(path: pathlib.Path, wanted: str) -> dict[str, list[str]]:
    reader = csv.DictReader(_text(path, wanted).splitlines())
    rows = []
    try:
        for row in reader:
            if None in row or None in row.values():
                raise ValueError(
                    f"Expected {len(reader.fieldnames or ())} columns in each line. "
                    f"Received: others in line {reader.line_num} of {path}"
                )
            rows.append(row)
    except csv.Error as error:
        raise ValueError(f"Expected {wanted}. Received: {path}, which is broken") from error
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
