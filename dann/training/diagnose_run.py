"""The diagnosis of a finished run."""

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from dann.adaptation import AdversarialModel, TargetOnly
from dann.data import DomainPair
from dann.diagnostics import Diagnosis, measure, verdict
from dann.diagnostics.check import QUICK
from dann.diagnostics.page import page
from dann.training.run_directory import RunDirectory

_PICTURES = {
    "samples": "Training images of both domains.",
    "features": "Features of test inputs of both domains, in two dimensions.",
    "confusion": "Predicted classes of the test sets. The matrix of the target needs labels.",
}


def diagnose_run(
    model: AdversarialModel,
    domains: DomainPair,
    diagnostics: Sequence[str] | None = None,
    samples: int = 500,
    step_samples: int = 32,
    seed: int = 0,
    print_fn: Callable[[str], Any] = lambda line: None,
) -> Diagnosis:
    """Runs diagnostics on training examples and returns the measurements with a verdict.

    Args:
        model: Compiled model.
        domains: The data that the model was trained on.
        diagnostics: Names in `dann.diagnostics.DIAGNOSTICS`. Defaults to `None`: the quick ones.
        samples: Largest number of examples per domain.
        step_samples: Largest number of these examples for diagnostics that work like a training
            step; see `dann.diagnostics.measure`.
        seed: Seed of the choice of examples.
        print_fn: Function that is called with a line of text before each diagnostic.
    """
    domains = domains.oracle() if isinstance(model, TargetOnly) else domains
    count = min(samples, len(domains.source_train[1]))
    batch = domains.batches(count, seed)[0]
    measurements, skip_reasons = measure(
        model, batch, diagnostics or QUICK, step_samples, print_fn=print_fn
    )
    about = {
        "method": type(model).__name__,
        "source": domains.source,
        "target": domains.target,
        "step": int(model.optimizer.iterations),
        "examples of each domain": count,
    }
    return Diagnosis(verdict(measurements), measurements, skip_reasons, about)


def write_diagnosis(diagnosis: Diagnosis, run: RunDirectory) -> pathlib.Path:
    """Writes a diagnosis and its report into a run directory.

    If the run has accuracies, and figures of images, features and confusion, the report contains
    them, too.

    Returns:
        The path of the report.

    Raises:
        FileExistsError: If a file of the same name exists that no diagnosis wrote.
    """
    pictures = {
        caption: (run.figures / f"{name}.png").read_bytes()
        for name, caption in _PICTURES.items()
        if (run.figures / f"{name}.png").is_file()
    }
    report = page(diagnosis, _accuracies(run), pictures)
    contents = {run.diagnosis_file: diagnosis.to_json().encode(), run.report_file: report.encode()}
    run.manifest.check(contents)
    for path, content in contents.items():
        with run.manifest.write(path) as draft:
            draft.write_bytes(content)
    return run.report_file


def _accuracies(run):
    """Returns the test accuracies on source and target, of the baseline and of the method."""
    summary = run.summary() if run.is_finished() else {}
    names = {"source_only/": "source only", "": summary.get("method")}
    return {
        name: [summary.get(f"{prefix}{domain}/accuracy") for domain in ("source", "target")]
        for prefix, name in names.items()
        if f"{prefix}source/accuracy" in summary
    }
