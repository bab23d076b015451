"""Standardization of inputs, with statistics of the training examples."""

import json
import os
import pathlib
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from dann.checks import check_choice
from dann.data.conversion import as_array, has_strings
from dann.data.examples import check_frame_columns, list_column_names
from dann.data.lazy_array import LazyArray

MODES = "each", "source", "both"
_DOMAINS = "source", "target"
_CHUNK = 256  # rows that are read and converted at once


class Standardizer:
    """Standardizes inputs to mean 0 and variance 1, per column, channel or feature.

    `transform` returns `(x - mean) / std`. The mean and the standard deviation belong to an entry
    of the last axis: a column of a table `(n, columns)`, a channel of images `(n, height, width,
    channels)` or of series `(n, time, channels)`. They are computed from training inputs only, not
    from labels or test examples. The divisor of a constant column is 1, as in
    `sklearn.preprocessing.StandardScaler`.

    `DomainPair.standardize` standardizes all parts of a pair. New examples need the same
    statistics, so save this object with the model.

    Args:
        mode: `"each"` uses the statistics of each domain for that domain, `"source"` the statistics
            of the source for both domains, and `"both"` the statistics of all examples.

    Attributes:
        statistics: After `fit`, mean and divisor of each column, `(2, columns)`, by domain.
        columns: After `fit` on data frames, the names of their columns, in order.

    Raises:
        ValueError: If the mode is unknown.

    Example:

    >>> import numpy as np
    >>> from dann.data import Standardizer
    >>> source, target = np.array([[1.0], [3.0]]), np.array([[10.0], [30.0]])
    >>> standardizer = Standardizer("each").fit(source, target)
    >>> standardizer.transform(source, "source").ravel().tolist()
    [-1.0, 1.0]
    >>> standardizer.transform([[40.0]]).tolist()  # new examples of the target
    [[2.0]]
    """

    def __init__(self, mode: str):
        self.mode = check_choice("standardize", mode, MODES)
        self.statistics: dict[str, np.ndarray] = {}
        self.columns: list[str] = []

    def fit(self, source: Any, target: Any) -> "Standardizer":
        """Computes the statistics of training inputs, and returns the standardizer.

        Args:
            source: Training inputs of the source, `(n, ..., columns)`; see `dann.data.arrays`.
            target: Training inputs of the target, `(m, ..., columns)`.

        Raises:
            ValueError: If inputs are strings, or the domains differ in their columns.
        """
        self.columns = list_column_names(source)
        inputs = [self._read(source, "source"), self._read(target, "target")]
        if self.mode == "each":
            values = [_compute_statistics([domain]) for domain in inputs]
        else:
            values = [_compute_statistics(inputs if self.mode == "both" else inputs[:1])] * 2
        self.statistics = dict(zip(_DOMAINS, values, strict=True))
        return self

    def transform(self, inputs: Any, domain: str = "target") -> Any:
        """Returns standardized inputs, float32.

        Args:
            inputs: Inputs `(n, ..., columns)`. Images and memory maps on disk are standardized when
                their rows are read.
            domain: `"source"`, or `"target"` (default).

        Raises:
            ValueError: If the domain is unknown, there are no statistics yet, or the inputs differ
                from `fit` in their columns.
        """
        check_choice("domain", domain, _DOMAINS)
        if not self.statistics:
            raise ValueError(
                "Expected statistics. Received: a standardizer without them. Call "
                "`fit(source, target)` before `transform`."
            )
        values, (mean, std) = self._read(inputs, domain), self.statistics[domain]
        if values.shape[-1] != len(mean):
            raise ValueError(
                f"Expected inputs with {len(mean)} columns or channels, as in `fit`. Received: "
                f"shape {values.shape}"
            )
        scaled = LazyArray(
            values.shape,
            np.dtype(np.float32),
            lambda rows: ((np.asarray(values[rows]) - mean) / std).astype(np.float32),
        )
        if type(values) is not np.ndarray:
            return scaled
        # In chunks, because the intermediate results are float64.
        starts = range(0, len(values), _CHUNK)
        return np.concatenate([scaled[start : start + _CHUNK] for start in starts])

    def save(self, path: str | os.PathLike) -> None:
        """Writes the mode and the statistics to a JSON file."""
        statistics = {name: values.tolist() for name, values in self.statistics.items()}
        content = {"standardize": self.mode, "columns": self.columns, "statistics": statistics}
        pathlib.Path(path).write_text(json.dumps(content) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Standardizer":
        """Returns the standardizer that `save` wrote.

        Raises:
            OSError: If the file does not exist.
            ValueError: If the file has other content.
        """
        try:
            content = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
            standardizer = cls(content["standardize"])
            standardizer.columns = [str(name) for name in content["columns"]]
            for domain in _DOMAINS:
                mean, std = np.array(content["statistics"][domain], np.float64)
                standardizer.statistics[domain] = np.stack([mean, std])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"Expected a file that `Standardizer.save` wrote. Received: {path} ({error})"
            ) from error
        return standardizer

    def _read(self, inputs, domain):
        """Returns inputs as an array; rejects strings, and columns that differ from `fit`."""
        values = as_array(inputs, domain)
        if has_strings(values) or len(values.shape) < 2:
            raise ValueError(
                f"Expected numeric inputs of shape (batch, ..., columns) for the {domain}. "
                f"Received: {values.dtype} of shape {values.shape}"
            )
        check_frame_columns(inputs, self.columns)
        return values


def _compute_statistics(domains):
    """Returns mean and divisor of each column over all rows of some domains, `(2, columns)`."""
    scaler: Any = StandardScaler()
    for inputs in domains:
        for start in range(0, len(inputs), _CHUNK):
            rows = np.asarray(inputs[start : start + _CHUNK], np.float64)
            scaler.partial_fit(rows.reshape(-1, rows.shape[-1]))  # (rows * pixels, channels)
    # scikit-learn replaces the deviation 0 of a constant column by 1.
    return np.stack([scaler.mean_, scaler.scale_])
