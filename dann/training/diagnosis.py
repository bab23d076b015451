"""The diagnosis of a finished run."""

import pathlib

import keras

from dann.adaptation import AdversarialModel
from dann.data import DomainPair
from dann.diagnostics.catalogue import DIAGNOSTICS, choose, measure
from dann.diagnostics.diagnosis import Diagnosis
from dann.diagnostics.figures import draw
from dann.diagnostics.report import page
from dann.diagnostics.verdict import verdict

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
    measurements, left_out = measure(model, data, diagnostics or tuple(DIAGNOSTICS), few)
    found = verdict(measurements)
    about = {
        "method": type(model).__name__,
        "source": domains.source,
        "target": domains.target,
        "step": int(model.optimizer.iterations),
        "examples of each domain": count,
    }
    return Diagnosis(found.name, tuple(found.reasons), measurements, left_out, about)


def write(diagnosis: Diagnosis, directory: str | pathlib.Path) -> pathlib.Path:
    """Writes `diagnosis.json`, `figures/diagnosis_*.svg` and `report.html`; returns the report.

    Everything is made before the first file is written.

    Args:
        diagnosis: What was found.
        directory: The run directory.
    """
    directory = pathlib.Path(directory)
    pictures = draw(diagnosis.measurements)
    files = {"diagnosis.json": diagnosis.to_json(), "report.html": page(diagnosis, pictures)}
    (directory / "figures").mkdir(exist_ok=True)
    for picture in pictures:
        (directory / "figures" / f"diagnosis_{picture.name}.svg").write_bytes(picture.svg)
    for name, content in files.items():
        (directory / name).write_text(content, encoding="utf-8")
    return directory / "report.html"


def summary_of(diagnosis: Diagnosis) -> str:
    """Returns the verdict and its reasons, a line each."""
    return "\n".join([f"verdict: {diagnosis.verdict}", *(f"  {r}" for r in diagnosis.reasons)])
