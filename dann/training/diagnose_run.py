"""The diagnosis of a finished run."""

import pathlib

from dann.adaptation import AdversarialModel
from dann.data import DomainPair
from dann.diagnostics import Diagnosis, measure, verdict
from dann.diagnostics.figures import draw
from dann.diagnostics.page import page
from dann.training.run_directory import RunDirectory


def diagnose_run(
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
        samples: Number of examples of each domain; no more than the source has are used.
        few: The largest number of them for diagnostics that work like a training step; see
            `dann.diagnostics.measure`.
        seed: Seed of the choice of examples.
    """
    domains = domains.oracle() if model.oracle else domains
    count = min(samples, len(domains.source_train[1]))
    measurements, left_out = measure(model, domains.batches(count, seed)[0], diagnostics, few)
    about = {
        "method": type(model).__name__,
        "source": domains.source,
        "target": domains.target,
        "step": int(model.optimizer.iterations),
        "examples of each domain": count,
    }
    return Diagnosis(verdict(measurements), measurements, left_out, about)


def write_diagnosis(diagnosis: Diagnosis, run: RunDirectory) -> pathlib.Path:
    """Writes a diagnosis, its figures and its report into a run; returns the report's path."""
    pictures = draw(diagnosis.measurements)
    figures = {picture.name: picture.svg for picture in pictures}
    run.write_diagnosis(diagnosis.to_json(), page(diagnosis, pictures), figures)
    return run.report_file
