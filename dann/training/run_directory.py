"""The files of a run. `conf/callbacks/` also contains the name of metrics.csv."""

import json
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import pandas

# Model files contain classes that these packages register with Keras.
import dann.adaptation  # noqa: F401
import dann.optimizers  # noqa: F401
from dann.layers import with_keras_batch_normalization
from dann.training.checkpoints import LAST_MODEL, LOCK, Checkpoints, atomic_write

_TRAINED = "a finished run"
FIGURES = "samples", "curves", "confusion", "features"
LARGEST_FILE = 4 << 30  # bytes; no file of a run comes near it


class RunDirectory:
    """Reads and writes the files of a run.

    Each file is written completely or not at all. A file that cannot be loaded raises an error of
    one line: `FileNotFoundError` if it is missing, `ValueError` if it cannot be read or is larger
    than 4 GiB. Model files are loaded in Keras's safe mode, which runs no code from them.

    Args:
        path: The directory. It does not have to exist yet.

    Example:

    >>> from dann.training import RunDirectory
    >>> run = RunDirectory("run")
    >>> run.is_finished()
    False
    >>> run.summary()
    Traceback (most recent call last):
        ...
    FileNotFoundError: Expected a finished run. Received: no run/summary.json
    """

    def __init__(self, path: str | os.PathLike):
        self.path = pathlib.Path(path)
        self.config_file = self.path / ".hydra" / "config.yaml"
        self.log_file = self.path / "log.txt"  # output of a run in a separate process
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
        self.manifest_file = self.path / "manifest.txt"
        self.tensorboard = self.path / "tensorboard"
        self.exports = self.path / "export"

    def __str__(self) -> str:
        """Returns the path, relative to the working directory if it is below that."""
        base = pathlib.Path.cwd()
        return str(self.path.relative_to(base) if self.path.is_relative_to(base) else self.path)

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
        return _existing(self.config_file, "a run directory").read_text("utf-8")

    def manifest(self) -> set[str]:
        """Returns the names of the files that runs write here, relative to the directory."""
        if not self.manifest_file.is_file():
            return set()
        return set(_existing(self.manifest_file, _TRAINED).read_text("utf-8").splitlines())

    def record(self, paths: Iterable[pathlib.Path]) -> None:
        """Adds files to the manifest. Call this method before the files are written."""
        names = {path.relative_to(self.path).as_posix() for path in paths}
        with atomic_write(self.manifest_file) as draft:
            draft.write_text("\n".join(sorted(self.manifest() | names)) + "\n", encoding="utf-8")

    def outputs(self) -> list[pathlib.Path]:
        """Returns the files, besides checkpoints and logs, that a run or its diagnosis writes."""
        results = self.summary_file, self.classifier_file, self.predictions_file
        tables = self.metrics_file, self.oracle_file, self.diagnosis_file, self.report_file
        return [*results, *tables, *(self.figures / f"{name}.png" for name in FIGURES)]

    def check_free(self, overwrite: bool = False) -> None:
        """Checks that a run may start in this directory without the loss of a file.

        The directory may be missing or contain an unfinished run. What Hydra and
        `scripts/reproduce.py` write before a run starts, that is `.hydra/` and logs, is ignored.

        Args:
            overwrite: Whether a finished run may be deleted, and whether the directory may contain
                files that no run wrote. Such a file is never overwritten. Defaults to `False`.

        Raises:
            FileExistsError: If the directory contains anything else.
        """
        advice = "Choose another hydra.run.dir, or set overwrite=true, which"
        names = self.manifest()
        contents = sorted(self.path.iterdir()) if self.path.is_dir() else []
        foreign = [path.name for path in contents if not _precedes_run(path)]
        if foreign and not names and not overwrite:
            listed = ", ".join(foreign[:3]) + (", ..." if len(foreign) > 3 else "")
            raise FileExistsError(
                f"Expected an empty directory or a run. {advice} keeps these files. "
                f"Received: {self}, which contains {listed}"
            )
        folders = self.checkpoints, self.baseline_checkpoints
        checkpoints = [path for folder in folders for path in Checkpoints(folder).files()]
        for path in (*self.outputs(), *checkpoints):
            if os.path.lexists(path) and path.relative_to(self.path).as_posix() not in names:
                raise FileExistsError(
                    "Expected no file where a run would write one. Move the file, or choose "
                    f"another hydra.run.dir. Received: {path}, which no run wrote"
                )
        if self.is_finished() and not overwrite:
            raise FileExistsError(
                f"Expected no finished run. {advice} deletes its results. Received: {self}"
            )

    def write_config(self, texts: Mapping[str, str]) -> None:
        """Writes the config of a run, YAML by file name such as `"config.yaml"`, to `.hydra/`."""
        for name, text in texts.items():
            with atomic_write(self.config_file.with_name(name)) as draft:
                draft.write_text(text, encoding="utf-8")

    def summary(self) -> dict[str, Any]:
        """Returns the summary of the run: accuracies, times, label-free scores."""
        content = _existing(self.summary_file, _TRAINED).read_bytes()
        try:
            return dict(json.loads(content))
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"Expected a JSON object. Received: {self.summary_file}") from error

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Writes the summary. A run with a summary is finished."""
        with atomic_write(self.summary_file) as draft:
            draft.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")

    def discard_summary(self) -> None:
        """Deletes the results, so that a restarted run does not look finished."""
        for path in self.outputs()[:3]:  # the summary first
            self.discard([path.name])

    def discard_results(self) -> None:
        """Deletes all files of earlier runs that the manifest names, the summary first."""
        self.discard_summary()
        self.discard(self.manifest())

    def discard(self, names: Iterable[str]) -> None:
        """Deletes files of the directory, by relative name, if the manifest names them too."""
        root = self.path.resolve()
        for name in self.manifest().intersection(names):
            path = self.path / name
            if path.parent.resolve().is_relative_to(root):
                path.unlink(missing_ok=True)

    def metrics(self) -> pandas.DataFrame:
        """Returns the metrics, one row per epoch."""
        return _table(self.metrics_file, f"{_TRAINED} with `callbacks=default`")

    def oracle_curve(self) -> pandas.DataFrame:
        """Returns the columns `step`, `cpu_seconds` and `target/accuracy`."""
        return _table(self.oracle_file, "a finished run with `trainer.oracle_curve=true`")

    def classifier(self) -> Any:
        """Returns the trained classifier, uncompiled."""
        return load_model(_existing(self.classifier_file, _TRAINED), compile=False)

    def save_classifier(self, classifier: Any) -> None:
        """Saves the classifier. It loads without this package, unless a layer needs the package."""
        with atomic_write(self.classifier_file) as draft:
            with_keras_batch_normalization(classifier).save(draft)

    def check_data(self, identity: Mapping[str, Sequence[float]]) -> None:
        """Checks that the data and their split are still those of the training.

        Args:
            identity: `DomainPair.identity` of the data as they are now.

        Raises:
            ValueError: If a training set differs, so that the test sets may contain examples that
                the run trained on.
        """
        saved = self.summary().get("training_data", identity) if self.is_finished() else identity
        for domain, numbers in identity.items():
            if not np.allclose(saved[domain], numbers, rtol=1e-6):
                counts = f"{numbers[0]} now, {saved[domain][0]} then"
                raise ValueError(
                    f"Expected the data on which {self} trained, because the test sets of other "
                    "data may contain its training examples. Restore the data, or train again. "
                    f"Received: other training examples of the {domain} ({counts})"
                )

    def write_predictions(self, table: Any, name: str = "") -> pathlib.Path:
        """Writes predictions for the target of the run, or for other data with a name."""
        path = self.predictions_file
        path = path.with_stem(f"{path.stem}_{name}") if name else path
        if path.exists() and path.name not in self.manifest():
            raise FileExistsError(
                f"Expected no file where predictions are written. Move the file. Received: {path}"
            )
        self.record([path])
        with atomic_write(path) as draft:
            table.to_csv(draft, index=False)
        return path

    def target_classes(self) -> tuple[tuple[str, ...], np.ndarray]:
        """Returns the training examples of the target, as files or rows, and their classes."""
        # Text, because a class or a file may be called "NA" or "01".
        options: Any = {"usecols": ["split", "example", "class"], "dtype": str}
        table = _table(self.predictions_file, _TRAINED, keep_default_na=False, **options)
        train = table[table["split"] == "train"]
        return tuple(train["example"]), train["class"].to_numpy()

    def model(self) -> Any:
        """Returns the model of the last epoch, including its discriminator and its optimizer.

        `selection.keep` changes only the classifier, which has no discriminator.
        """
        return load_model(_existing(self.checkpoint_file, _TRAINED))


def load_model(path: pathlib.Path, compile: bool = True) -> Any:
    """Loads a `.keras` file in safe mode.

    Args:
        path: The file.
        compile: Whether to load the optimizer and the losses. Defaults to `True`.

    Raises:
        ValueError: If the file cannot be read, or contains code. `__cause__` is the error of Keras,
            which may advise you to trust the file.
    """
    try:
        return keras.models.load_model(path, compile=compile, safe_mode=True)
    except Exception as error:  # a strange config can raise anything
        raise ValueError(
            "Expected a Keras model with its weights, without code, made of classes of Keras and "
            f"of this package. Received: {path}, which cannot be read as a model"
        ) from error


def _precedes_run(path):
    """Returns whether Hydra, `scripts/reproduce.py` or the lock creates a path before a run."""
    return path.name in (".hydra", "log.txt", LOCK) or path.suffix == ".log"


def _existing(path: pathlib.Path, origin: str) -> pathlib.Path:
    """Returns the path if the file exists. The error names the origin of the file."""
    if not path.is_file():
        raise FileNotFoundError(f"Expected {origin}. Received: no {path}")
    if (size := path.stat().st_size) > LARGEST_FILE:
        raise ValueError(f"Expected at most {LARGEST_FILE:,} bytes. Received: {path}, of {size:,}")
    return path


def _table(path: pathlib.Path, origin: str, **options: Any) -> Any:
    return pandas.read_csv(_existing(path, origin), **options)
