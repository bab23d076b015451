"""The export of a finished run's classifier into its directory."""

from typing import Any

import numpy as np

from dann.checks import check_integer, check_number
from dann.deployment.formats import check_format, export
from dann.training.run_directory import RunDirectory


def check_export(format: str, examples: int, tolerance: float) -> None:
    """Checks the arguments of `export_run` before anything is loaded.

    Raises:
        ImportError: If a package that the format needs is not installed.
        ValueError: If an argument is wrong.
    """
    check_integer("examples", examples, low=1)
    check_number("tolerance", tolerance, low=0)
    check_format(format)


def export_run(
    run: RunDirectory,
    classifier: Any,
    inputs: Any,
    format: str,
    examples: int = 1000,
    tolerance: float = 1e-3,
) -> str:
    """Exports a classifier into `export/` in its run directory and returns a line about it.

    Args:
        run: The run directory.
        classifier: The run's classifier.
        inputs: Inputs to compare on; those used are spread evenly over them.
        format: One of `dann.deployment.formats.FORMATS`.
        examples: How many inputs to compare on, at least 1.
        tolerance: See `dann.deployment.formats.export`.

    Raises:
        NotADirectoryError: If `export/` is a link, which could point outside the run.
    """
    run.check_not_linked(run.exports)
    count = min(examples, len(inputs))
    chosen = inputs[np.linspace(0, len(inputs) - 1, count).astype(int)]
    found = export(classifier, format, run.exports, np.asarray(chosen), tolerance)
    count, rounded = found["examples"], found["rounded"]
    told = (
        f"{found['path']}: {found['bytes']:,} bytes; {count - rounded} of {count} examples get "
        f"the same classes, and logits that differ by at most {found['difference']:.2g}"
    )
    if rounded:
        others = count - round(count * found["agreement"])
        told += (
            f"; in {rounded} rounding decides, as it does in Keras on inputs changed a little, "
            f"and the class differs in {others}"
        )
    return told
