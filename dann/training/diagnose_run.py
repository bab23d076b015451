"""The files of a diagnosis in a run directory."""

import pathlib

from dann.diagnostics.check import Diagnosis
from dann.diagnostics.page import Picture, draw, page
from dann.training.run_directory import RunDirectory

_RUN_FIGURES = {
    "samples": "Training images of both domains.",
    "features": "Features of examples of both domains, in two dimensions, by t-SNE.",
    "confusion": "Predicted classes. Without labels of the target, bars show how often each class "
    "is predicted there, beside the classes of the source.",
}


def write_diagnosis(diagnosis: Diagnosis, run: RunDirectory) -> pathlib.Path:
    """Writes a diagnosis, its figures and its report into a run directory.

    The figures of earlier diagnoses are deleted. If the run has accuracies, and figures of images,
    features and confusion, the report contains them, too.

    Returns:
        The path of the report.

    Raises:
        FileExistsError: If a file of the same name exists that no diagnosis wrote.
    """
    figures = draw(diagnosis.measurements)
    run_figures = [
        Picture(name, caption, (run.figures / f"{name}.png").read_bytes(), "png")
        for name, caption in _RUN_FIGURES.items()
        if (run.figures / f"{name}.png").is_file()
    ]
    summary = run.summary() if run.is_finished() else {}
    accuracies = {
        name: [summary.get(f"{prefix}{domain}/accuracy") for domain in ("source", "target")]
        for prefix, name in {"source_only/": "source only", "": summary.get("method")}.items()
        if f"{prefix}source/accuracy" in summary
    }
    report = page(diagnosis, figures, accuracies, run_figures)
    prefix = f"{run.figures.name}/diagnosis_"
    contents = {run.figures / f"diagnosis_{figure.name}.svg": figure.content for figure in figures}
    contents |= {run.diagnosis_file: diagnosis.to_json().encode(), run.report_file: report.encode()}
    run.manifest.check(contents)
    run.manifest.discard(name for name in run.manifest.files() if name.startswith(prefix))
    for path, content in contents.items():
        with run.manifest.write(path) as draft:
            draft.write_bytes(content)
    return run.report_file
