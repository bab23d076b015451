"""The classifier of a finished run, exported into its directory."""

import os
import pathlib
from typing import Any

import keras
import numpy as np

import dann.adaptation  # noqa: F401  registers the layers that a classifier may hold
from dann.deployment.formats import check_format, export


class ExportedRun:
    """Loads the classifier of a run and exports it.

    Args:
        directory: A run directory of `scripts/train.py`.
        format: One of `dann.deployment.formats.FORMATS`.
        examples: How many inputs to compare on, at least 1.
        tolerance: See `dann.deployment.formats.export`.

    Raises:
        FileNotFoundError: If the run has no classifier.
        ImportError: If a package is missing.
        ValueError: If an argument is out of range or the format unknown.
    """

    def __init__(
        self,
        directory: str | os.PathLike,
        format: str,
        examples: int = 1000,
        tolerance: float = 1e-3,
    ):
        if examples < 1 or not tolerance >= 0:  # NaN is neither
            raise ValueError(
                "`examples` must be at least 1 and `tolerance` at least 0. Received: "
                f"{examples}, {tolerance}"
            )
        self.directory = pathlib.Path(directory)
        self.format = check_format(format)
        self.examples = examples
        self.tolerance = tolerance
        path = self.directory / "classifier.keras"
        if not path.is_file():
            raise FileNotFoundError(
                f"Expected a finished run of scripts/train.py. Received: no {path}"
            )
        self.model: Any = keras.models.load_model(path, compile=False)

    def export(self, inputs: Any) -> str:
        """Exports into `export/` in the run directory and returns a line that tells of it.

        Args:
            inputs: Inputs to compare on; those used are spread evenly over them.
        """
        count = min(self.examples, len(inputs))
        chosen = inputs[np.linspace(0, len(inputs) - 1, count).astype(int)]
        folder = self.directory / "export"
        found = export(self.model, self.format, folder, np.asarray(chosen), self.tolerance)
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
