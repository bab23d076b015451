"""The diagnosis of a finished run."""

import os
import pathlib
from collections.abc import Mapping

import keras

from dann.adaptation import AdversarialModel
from dann.data import DomainPair
from dann.diagnostics import Diagnosis, measure, verdict
from dann.diagnostics.catalogue import choose
from dann.diagnostics.report.figures import draw
from dann.diagnostics.report.page import page

CHECKPOINT = pathlib.Path("checkpoints") / "last.keras"


def check_choices(diagnostics: list[str] | None, samples: int, few: int) -> None:
    """Refuses what `diagnose` could not do.

    Raises:
        ValueError: If a diagnostic is unknown, or there are too few examples.
    """
    if diagnostics is not None:
        choose(diagnostics)
    if samples < 4 or few < 2:
        raise ValueError(
            "Expected at least 4 samples of each domain, and few of at least 2. "
            f"Received: samples={samples}, few={few}"
        )


def check_writable(directory: str | pathlib.Path) -> None:
    """Refuses a run directory into which `write` could not write.

    Args:
        directory: The run directory.

    Raises:
        OSError: If a folder stands where a file goes or the other way round, or one is read-only.
    """
    directory = pathlib.Path(directory)
    figures = directory / "figures"
    for path in (directory / "diagnosis.json", directory / "report.html"):
        if path.is_dir():
            raise IsADirectoryError(f"Expected to write a file. Received: the directory {path}")
    if figures.exists() and not figures.is_dir():
        raise NotADirectoryError(f"Expected a directory for figures. Received: the file {figures}")
    for folder in (directory, figures):
        if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(
                f"Expected a directory that can be written to. Received: {folder}"
            )


def load_model(directory: str | pathlib.Path) -> AdversarialModel:
    """Loads the whole model of a run, discriminator and optimizer included.

    It is that of the last epoch, also where `selection.keep` made `classifier.keras` one of an
    earlier epoch, which holds no discriminator.

    Args:
        directory: A run directory of `scripts/train.py`.

    Raises:
        FileNotFoundError: If the directory or its checkpoint is not there.
        ValueError: If the file cannot be read, or is no model of `dann.adaptation`.
    """
    directory = pathlib.Path(directory)
    path = directory / CHECKPOINT
    if not directory.is_dir():
        raise FileNotFoundError(f"Expected a run directory. Received: no directory {directory}")
    if not path.is_file():
        raise FileNotFoundError(
            "Expected a run of scripts/train.py with its checkpoint, which `callbacks=default` "
            f"keeps. Received: no {path}"
        )
    try:
        model = keras.models.load_model(path)
    except Exception as error:  # a broken archive can raise anything
        raise ValueError(
            f"Expected a checkpoint of scripts/train.py. Received: {path}, which cannot be read"
        ) from error
    if not isinstance(model, AdversarialModel):
        raise ValueError(
            f"Expected a model of `dann.adaptation`. Received: {type(model).__name__} in {path}"
        )
    return model


def diagnose(
    model: AdversarialModel,
    domains: DomainPair,
    diagnostics: list[str] | None = None,
    samples: int = 500,
    few: int = 32,
    seed: int = 0,
) -> Diagnosis:
    """Measures a model on training examples and says what it means.

    Args:
        model: Compiled model.
        domains: The data that it was trained on.
        diagnostics: Names in `dann.diagnostics.DIAGNOSTICS`. Defaults to `None`: all.
        samples: Number of examples of each domain, at most those of the source.
        few: So many of them at most for what works like a training step; see
            `dann.diagnostics.measure`.
        seed: Seed of the choice of examples.
    """
    domains = domains.oracle() if model.oracle else domains
    count = min(samples, len(domains.source_train[1]))
    x, y = next(iter(domains.batches(count, seed)))
    data = keras.tree.map_structure(keras.ops.convert_to_numpy, (dict(x), y))
    measurements, left_out = measure(model, data, diagnostics, few)
    about = {
        "method": type(model).__name__,
        "source": domains.source,
        "target": domains.target,
        "step": int(model.optimizer.iterations),
        "examples of each domain": count,
    }
    return Diagnosis(verdict(measurements), measurements, left_out, about)


def write(diagnosis: Diagnosis, directory: str | pathlib.Path) -> pathlib.Path:
    """Writes `diagnosis.json`, `figures/diagnosis_*.svg` and `report.html`; returns the report.

    All is written beside its place first and moved there at the end, so that an error leaves an
    earlier diagnosis whole. Figures of an earlier one that have no successor are deleted.

    Args:
        diagnosis: What was found.
        directory: The run directory.

    Raises:
        OSError: If it cannot be written to; see `check_writable`.
    """
    check_writable(directory)
    directory = pathlib.Path(directory)
    figures, report = directory / "figures", directory / "report.html"
    pictures = draw(diagnosis.measurements)
    contents = {figures / f"diagnosis_{picture.name}.svg": picture.svg for picture in pictures}
    contents[directory / "diagnosis.json"] = diagnosis.to_json().encode()
    contents[report] = page(diagnosis, pictures).encode()
    figures.mkdir(exist_ok=True)
    _replace_all(contents)
    for path in figures.glob("diagnosis_*.svg"):
        if path not in contents:
            path.unlink()
    return report


def _replace_all(contents: Mapping[pathlib.Path, bytes]):
    drafts = {path: path.with_name(f"{path.name}.part") for path in contents}
    try:
        for path, draft in drafts.items():
            draft.write_bytes(contents[path])
        for path, draft in drafts.items():
            draft.replace(path)
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)


def summary_of(diagnosis: Diagnosis) -> str:
    """Returns the verdict and its reasons, a line each."""
    found = diagnosis.verdict
    return "\n".join([f"verdict: {found.name}", *(f"  {reason}" for reason in found.reasons)])
