"""The files of a run, and how their paths are written on a command line.

Their names stand here, and that of metrics.csv in conf/callbacks too.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import pandas

import dann.adaptation  # noqa: F401  registers the classes that a model file may hold
from dann.layers import with_keras_batch_normalization
from dann.training.checkpoints import LAST_MODEL, Checkpoints, atomic_write

_TRAINED = "a finished run of scripts/train.py"
LARGEST_FILE = 4 << 30  # bytes; no file of a run comes near it


class RunDirectory:
    """The files of a run by name: writes each completely or not at all, and loads them.

    A file that cannot be loaded raises an error of one line: `FileNotFoundError` if it is missing,
    `ValueError` if it cannot be read or is larger than 4 GiB. Model files are loaded in Keras's
    safe mode, which runs no code from them.

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
        self.predictions_file = self.path / "predictions.csv"
        self.checkpoints = self.path / "checkpoints"
        self.baseline_checkpoints = self.checkpoints / "source_only"
        self.checkpoint_file = self.checkpoints / LAST_MODEL
        self.diagnosis_file = self.path / "diagnosis.json"
        self.report_file = self.path / "report.html"
        self.figures = self.path / "figures"
        self.tensorboard = self.path / "tensorboard"
        self.exports = self.path / "export"

    def __str__(self) -> str:
        """The path as a user would write it: from the folder in which he works, if it is below."""
        here = pathlib.Path.cwd()
        return str(self.path.relative_to(here) if self.path.is_relative_to(here) else self.path)

    def is_finished(self) -> bool:
        """Returns whether the run is finished, that is, has a summary."""
        try:
            self.summary()
        except (OSError, ValueError):
            return False
        return True

    def has_checkpoints(self) -> bool:
        """Returns whether there is a checkpoint from which the run could resume."""
        folders = self.checkpoints, self.baseline_checkpoints
        return any(Checkpoints(folder).paths() for folder in folders)

    def config(self) -> str:
        """Returns the composed config as YAML, references unresolved."""
        return _existing(self.config_file, "a run directory of scripts/train.py").read_text("utf-8")

    def write_config(self, texts: Mapping[str, str]) -> None:
        """Writes what a run is made of, YAML by name such as `"config.yaml"`, into `.hydra/`."""
        for name, text in texts.items():
            with atomic_write(self.config_file.with_name(name)) as draft:
                draft.write_text(text, encoding="utf-8")

    def summary(self) -> dict[str, Any]:
        """Returns the results of the run: accuracies, times, label-free scores."""
        content = _existing(self.summary_file, _TRAINED).read_bytes()
        try:
            return dict(json.loads(content))
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(
                f"Expected values by name, in JSON. Received: {self.summary_file}"
            ) from error

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Writes the summary. A run that has one is finished."""
        with atomic_write(self.summary_file) as draft:
            draft.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")

    def discard_summary(self) -> None:
        """Deletes the results, so that a restarted run does not look finished."""
        for path in (self.summary_file, self.classifier_file, self.predictions_file):
            path.unlink(missing_ok=True)

    def discard_results(self) -> None:
        """Deletes all that tells of an earlier run but its checkpoints, logs and exports."""
        self.discard_summary()
        told = (self.metrics_file, self.oracle_file, self.diagnosis_file, self.report_file)
        for path in told:
            path.unlink(missing_ok=True)
        shutil.rmtree(self.figures, ignore_errors=True)

    def metrics(self) -> pandas.DataFrame:
        """Returns the epochs' metrics, a column each."""
        return _table(self.metrics_file, f"{_TRAINED} with `callbacks=default`")

    def oracle_curve(self) -> pandas.DataFrame:
        """Returns the columns `step`, `cpu_seconds` and `target/accuracy`."""
        return _table(self.oracle_file, "a finished run, and `trainer.oracle_curve=true` in it")

    def classifier(self) -> Any:
        """Returns the trained classifier, uncompiled."""
        return load_model(_existing(self.classifier_file, _TRAINED), compile=False)

    def save_classifier(self, classifier: Any) -> None:
        """Saves the classifier, which then loads without this package unless a layer needs it."""
        with atomic_write(self.classifier_file) as draft:
            with_keras_batch_normalization(classifier).save(draft)

    def write_predictions(self, table: Any, name: str = "") -> pathlib.Path:
        """Writes a frame of predictions, of the data with this name or of the run's own target."""
        path = self.predictions_file
        path = path.with_stem(f"{path.stem}_{name}") if name else path
        with atomic_write(path) as draft:
            table.to_csv(draft, index=False)
        return path

    def target_classes(self) -> tuple[tuple[str, ...], np.ndarray]:
        """Returns the target's training examples, by file or row, and the classes predicted."""
        as_text: Any = {"usecols": ["split", "example", "class"], "dtype": str}
        table = _table(self.predictions_file, _TRAINED, keep_default_na=False, **as_text)
        train = table[table["split"] == "train"]
        return tuple(train["example"]), train["class"].to_numpy()

    def model(self) -> Any:
        """Returns the whole model of the last epoch, discriminator and optimizer included.

        `selection.keep` changes only the classifier, which holds no discriminator.
        """
        return load_model(_existing(self.checkpoint_file, _TRAINED))


def load_model(path: pathlib.Path, compile: bool = True) -> Any:
    """Loads a `.keras` file in safe mode, with its optimizer and losses if `compile`.

    Raises:
        ValueError: If it cannot be read, or holds code. Keras's own error is its `__cause__`; that
            one may advise you to trust the file.
    """
    try:
        return keras.models.load_model(path, compile=compile, safe_mode=True)
    except Exception as error:  # a strange config can raise anything
        raise ValueError(
            "Expected a Keras model of classes that Keras and this package know, without code, and "
            f"with its weights. Received: {path}, which cannot be read as one"
        ) from error


def _existing(path: pathlib.Path, wanted: str) -> pathlib.Path:
    """Returns the path of a regular file; the error if there is none says what writes it."""
    if not path.is_file():
        raise FileNotFoundError(f"Expected {wanted}. Received: no {path}")
    if (size := path.stat().st_size) > LARGEST_FILE:
        raise ValueError(f"Expected at most {LARGEST_FILE:,} bytes. Received: {path}, of {size:,}")
    return path


def _table(path: pathlib.Path, wanted: str, **options: Any) -> Any:
    return pandas.read_csv(_existing(path, wanted), **options)


def quote(path: object) -> str:
    """Returns a path as Hydra's command line takes it, whatever characters it holds."""
    # Hydra takes one of two backslashes where a quote follows.
    text = re.sub(
        r'(\\*)("|$)', lambda found: 2 * found[1] + "\\" * len(found[2]) + found[2], str(path)
    )
    return '"' + text.replace("${", "\\${") + '"'


def format_argument(key: str, path: object) -> str:
    """Returns `key=path` as it is typed for one of the scripts, with the quotes that it needs."""
    plain = re.fullmatch(r"[\w./-]+", str(path), re.ASCII)
    return f"{key}={path}" if plain else shlex.quote(f"{key}={quote(path)}")
