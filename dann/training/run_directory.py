"""The files of a run. `conf/callbacks/` also contains the name of metrics.csv."""

import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas

from dann.data import Standardizer
from dann.layers.batch_normalization import with_keras_batch_normalization
from dann.training.checkpoints import LAST_MODEL, LOCK, Checkpoints
from dann.training.file_readers import check_file, load_model, read_table
from dann.training.manifest import Manifest

_TRAINED = "a finished run"
FIGURES = "samples", "curves", "confusion", "features"


class RunDirectory:
    """Reads and writes the files of a run.

    Each file is written completely or not at all. Methods that read a file raise an error with a
    one-line message: `FileNotFoundError` if the file is missing, `ValueError` if it cannot be read
    or is larger than 4 GiB. Model files are loaded in Keras's safe mode, which runs no code.

    Args:
        path: The directory. It does not have to exist yet.

    Example:

    >>> from dann.training.run_directory import RunDirectory
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
        self.config_files = self.config_file, self.config_file.with_name("overrides.yaml")
        self.log_file = self.path / "log.txt"  # output of a run in a separate process
        self.summary_file = self.path / "summary.json"
        self.metrics_file = self.path / "metrics.csv"
        self.oracle_file = self.path / "oracle.csv"
        self.classifier_file = self.path / "classifier.keras"
        self.standardizer_file = self.path / "standardizer.json"
        self.encoding_file = self.path / "encoding.csv"
        self.input_files = self.encoding_file, self.standardizer_file  # describe the inputs
        self.predictions_file = self.path / "predictions.csv"
        self.model_files = self.classifier_file, self.predictions_file, *self.input_files
        self.checkpoints = self.path / "checkpoints"
        self.baseline = self.path / "source_only"  # classifier and predictions of the baseline
        self.baseline_checkpoints = self.checkpoints / "source_only"
        self.checkpoint_file = self.checkpoints / LAST_MODEL
        self.diagnosis_file = self.path / "diagnosis.json"
        self.report_file = self.path / "report.html"
        self.figures = self.path / "figures"
        self.tensorboard = self.path / "tensorboard"
        self.exports = self.path / "export"
        self.manifest = Manifest(self.path, "run")

    def __str__(self) -> str:
        """Returns the path; relative, if it is below the working directory."""
        base = pathlib.Path.cwd()
        return str(self.path.relative_to(base) if self.path.is_relative_to(base) else self.path)

    def is_finished(self) -> bool:
        """Returns whether the run is finished: only finished runs have a summary."""
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
        """Returns the composed config as YAML, with unresolved references."""
        return check_file(self.config_file, "a run directory").read_text("utf-8")

    def contains(self, path: str | os.PathLike) -> bool:
        """Returns whether a path is below this directory."""
        return pathlib.Path(path).absolute().is_relative_to(self.path.absolute())

    def outputs(self) -> list[pathlib.Path]:
        """Returns the files that a run writes, without checkpoints, logs and the config."""
        figures = [self.figures / f"{name}.png" for name in FIGURES]
        return [self.summary_file, *self.model_files, self.metrics_file, self.oracle_file, *figures]

    def check_free(self, overwrite: bool = False) -> None:
        """Checks that a run can start in this directory without replacing other files.

        The directory may be missing or contain an unfinished run. The folder `.hydra/` and logs are
        ignored, because Hydra and `scripts/reproduce.py` write them before a run starts.

        Args:
            overwrite: Whether a finished run may be deleted, and whether the directory may contain
                files that no run wrote. These files are never overwritten. Defaults to `False`.

        Raises:
            FileExistsError: If the directory contains anything else.
        """
        advice = "Choose another hydra.run.dir, or set overwrite=true, which"
        self.check_files()  # first, because `overwrite` does not help
        contents = sorted(self.path.iterdir()) if self.path.is_dir() else []
        ignored_names = LOCK, self.log_file.name, self.config_file.parent.name
        unknown_names = [
            p.name for p in contents if p.name not in ignored_names and p.suffix != ".log"
        ]
        if unknown_names and not self.manifest.path.exists() and not overwrite:
            listed = ", ".join(unknown_names[:3]) + (", ..." if len(unknown_names) > 3 else "")
            raise FileExistsError(
                f"Expected an empty directory or a run. {advice} keeps these files. "
                f"Received: {self}, which contains {listed}"
            )
        if self.is_finished() and not overwrite:
            raise FileExistsError(
                f"Expected no finished run. {advice} deletes its results. Received: {self}"
            )

    def check_files(self) -> None:
        """Raises `FileExistsError` if a run would overwrite a file that no run wrote."""
        self.manifest.check(self.outputs())
        for folder in (self.checkpoints, self.baseline_checkpoints):
            Checkpoints(folder).check_free()

    def write_config(self, texts: Mapping[str, str]) -> None:
        """Writes the config of a run, YAML by file name such as `"config.yaml"`, to `.hydra/`."""
        for name, text in texts.items():
            with self.manifest.write(self.config_file.with_name(name)) as draft:
                draft.write_text(text, encoding="utf-8")

    def summary(self) -> dict[str, Any]:
        """Returns the summary of the run: accuracies, times, label-free scores."""
        content = check_file(self.summary_file, _TRAINED).read_bytes()
        try:
            return dict(json.loads(content))
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"Expected a JSON object. Received: {self.summary_file}") from error

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Writes the summary. A run with a summary is finished."""
        with self.manifest.write(self.summary_file) as draft:
            draft.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")

    def discard_classifier(self) -> list[str]:
        """Deletes the classifier and all files about it, so that the run does not look finished.

        Returns:
            Names of the deleted files, and the folders of deleted files, such as `"export/"`.
        """
        files = self.classifier_file, self.summary_file, self.diagnosis_file, self.report_file
        prefixes = tuple(file.name for file in files) + (self.predictions_file.stem,)
        prefixes += f"{self.figures.name}/", f"{self.exports.name}/"
        names = [name for name in self.manifest.files() if name.startswith(prefixes)]
        deleted = [name for name in names if (self.path / name).is_file()]
        # The summary first, because a run with a summary is finished.
        self.manifest.discard([self.summary_file.name])
        self.manifest.discard(names)
        # If there was no classifier, the baseline was trained by this run and is kept.
        if deleted and RunDirectory(self.baseline).discard_classifier():
            deleted.append(f"{self.baseline.name}/")
        return sorted({name if "/" not in name else name.split("/")[0] + "/" for name in deleted})

    def discard_results(self) -> None:
        """Deletes all files of earlier runs: the summary first, the config last."""
        self.manifest.discard([self.summary_file.name])
        for folder in (self.checkpoints, self.baseline_checkpoints):
            Checkpoints(folder).manifest.discard()
        RunDirectory(self.baseline).manifest.discard()
        self.manifest.discard()

    def metrics(self) -> pandas.DataFrame:
        """Returns the metrics, one row per epoch."""
        return read_table(self.metrics_file, f"{_TRAINED} with `callbacks=default`")

    def oracle_curve(self) -> pandas.DataFrame:
        """Returns the columns `step`, `cpu_seconds` and `target/accuracy`."""
        return read_table(self.oracle_file, "a finished run with `trainer.oracle_curve=true`")

    def classifier(self) -> Any:
        """Returns the trained classifier, uncompiled."""
        return load_model(check_file(self.classifier_file, _TRAINED), compile=False)

    def save_classifier(self, classifier: Any) -> None:
        """Saves the classifier. It loads without this package, unless a layer needs the package."""
        with self.manifest.write(self.classifier_file) as draft:
            with_keras_batch_normalization(classifier).save(draft)

    def standardizer(self) -> Standardizer | None:
        """Returns the standardizer of the inputs, or `None` if the run did not standardize them."""
        path = self.standardizer_file
        return Standardizer.load(check_file(path, _TRAINED)) if path.is_file() else None

    def save_inputs(self, encoding: Any, standardizer: Standardizer | None) -> None:
        """Saves the encoding and the standardizer of a `DomainPair`, which new inputs need."""
        self.manifest.discard(path.name for path in self.input_files)  # of earlier inputs
        if encoding is not None:
            with self.manifest.write(self.encoding_file) as draft:
                encoding.to_csv(draft, index=False)
        if standardizer is not None:
            with self.manifest.write(self.standardizer_file) as draft:
                standardizer.save(draft)

    def check_data(self, identity: Mapping[str, Sequence[float]]) -> None:
        """Checks that neither the data nor their split have changed since training.

        Args:
            identity: `DomainPair.identity` of the current data.

        Raises:
            ValueError: If a training set differs. The test sets may then contain examples on which
                the run trained.
        """
        saved = self.summary().get("training_data", identity) if self.is_finished() else identity
        # A row of one domain can change both, because `csv_table` scales them together.
        changes = []
        for domain, (count, checksum) in identity.items():
            if not np.allclose(saved[domain], (count, checksum), rtol=1e-6):
                old = f"{saved[domain][0]} examples in training"
                new = "with other values" if saved[domain][0] == count else f"{count} now"
                changes.append(f"the {domain} ({old}, {new})")
        if changes:
            raise ValueError(
                f"Expected the data on which {self} trained, because the test sets of other "
                "data may contain its training examples. Restore the data, or train again. "
                f"Received: other training examples of {' and of '.join(changes)}"
            )

    def check_predictions(self, target: str | None = None) -> tuple[pathlib.Path, str]:
        """Checks that predictions may be written.

        Args:
            target: Path of another target, whose stem becomes part of the name of the file.
                Defaults to `None`: the target of the run.

        Returns:
            The path of the file, and the absolute path of the other target or an empty string.

        Raises:
            FileExistsError: If no run wrote the file, or it is for another target of this stem.
        """
        path, origin = self.predictions_file, ""
        if target is not None:
            origin = os.path.abspath(target)
            path = path.with_stem(f"{path.stem}_{pathlib.Path(origin).stem}")
        written_for = self.manifest.files().get(path.name, origin)
        if written_for != origin and path.exists():
            raise FileExistsError(
                f"Expected no file with predictions for another target. Move the file, or rename "
                f"the target. Received: {path}, with predictions for {written_for}"
            )
        self.manifest.check([path])
        return path, origin

    def write_predictions(self, table: Any, target: str | None = None) -> pathlib.Path:
        """Writes predictions, a frame, for the target of the run or another target.

        Raises:
            FileExistsError: See `check_predictions`.
        """
        path, origin = self.check_predictions(target)
        with self.manifest.write(path, origin) as draft:
            table.to_csv(draft, index=False)
        return path

    def predictions(self) -> Any:
        """Returns the predictions for the target of the run. All columns contain text."""
        # Text, because a class or a file may be called "NA" or "01".
        return read_table(self.predictions_file, _TRAINED, keep_default_na=False, dtype=str)

    def model(self) -> Any:
        """Returns the model of the last epoch, including its discriminator and its optimizer.

        `selection.keep` changes only the classifier, which has no discriminator.
        """
        return load_model(check_file(self.checkpoint_file, _TRAINED))
