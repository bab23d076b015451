"""Accuracy by value of a nuisance, and classes that occur with only one value."""

from typing import Any, NamedTuple

import numpy as np
import pandas
from pandas.api.types import infer_dtype
from scipy import stats

from dann.checks import check_shape

_NUM_BINS = 3  # of a nuisance that is a number
# Smallest fraction of a class with the value, and largest probability that it occurs by chance.
_MIN_SHARE, _MAX_PVALUE = 0.95, 1e-3


class ConfoundedClass(NamedTuple):
    """A class that occurs with one value of a nuisance; `str` returns a sentence.

    Attributes:
        label: The class.
        value: The value of the nuisance.
        share: Fraction of the examples of the class that have the value, at least 0.95.
        expected: Fraction of all examples that have the value.
    """

    label: Any
    value: Any
    share: float
    expected: float

    def __str__(self) -> str:
        return (
            f"{self.share:.0%} of class {self.label} have the value {self.value} "
            f"({self.expected:.0%} of all examples)"
        )


def find_confounded_classes(labels: Any, nuisance: Any) -> list[ConfoundedClass]:
    """Returns the classes of which at least 95% of the examples have the same value of a nuisance.

    Features that are independent of the nuisance cannot fully separate such a class, so `Invariant`
    hides part of the class, too. Fisher's exact test, one-sided at the level 0.001, excludes
    chance. If half of all examples have the value, a class needs at least 10 examples; it needs
    more if the value is more frequent.

    Args:
        labels: Class of each example `(n,)`.
        nuisance: Class of the nuisance of each example `(n,)`. Missing classes and values are
            `None`, NaN or -1.

    Raises:
        ValueError: If an argument is not one finite value per example.

    Example:

    >>> from dann.diagnostics import find_confounded_classes
    >>> print(*find_confounded_classes(["ill"] * 20 + ["well"] * 20, ["a"] * 20 + ["a", "b"] * 10))
    100% of class ill have the value a (75% of all examples)
    """
    labels, nuisance = _check_arrays(labels=labels, nuisance=nuisance)
    counts = pandas.crosstab(_mask_missing(labels), _mask_missing(nuisance))  # (classes, values)
    total, value_sizes = counts.to_numpy().sum(), counts.sum()
    confounded = []
    for label, row in counts.iterrows():
        value: Any = row.idxmax()
        share = float(row[value] / row.sum())
        # Fisher's exact test: the class as a random draw from all examples.
        pvalue = stats.hypergeom.sf(row[value] - 1, total, value_sizes[value], row.sum())
        if share >= _MIN_SHARE and pvalue < _MAX_PVALUE:
            confounded.append(ConfoundedClass(label, value, share, value_sizes[value] / total))
    return confounded


def accuracy_by_nuisance(labels: Any, predicted: Any, nuisance: Any) -> pandas.DataFrame:
    """Returns the accuracy by class (rows) and value of a nuisance (columns).

    Compare the table of a model with the table of the same model at strength 0.

    Args:
        labels: Class of each example `(n,)`.
        predicted: Predicted class of each example `(n,)`.
        nuisance: Value of the nuisance of each example `(n,)`. Floating-point values are divided
            into three intervals of about equally many examples, unless all are equal. `None` and
            NaN are missing values; so is -1, except among floating-point values.

    Returns:
        Fractions in [0, 1], and NaN where there is no example.

    Raises:
        ValueError: If an argument is not one finite value per example, or only one of `labels` and
            `predicted` contains strings.
    """
    labels, predicted, nuisance = _check_arrays(
        labels=labels, predicted=predicted, nuisance=nuisance
    )
    if (infer_dtype(labels) == "string") != (infer_dtype(predicted) == "string"):
        raise ValueError(
            "Expected `labels` and `predicted` to be both strings or both numbers. Received: "
            f"labels such as {labels[:1].tolist()} and predictions such as {predicted[:1].tolist()}"
        )
    values: Any = pandas.Series(nuisance)
    if values.dtype.kind != "f":
        values = _mask_missing(nuisance)
    elif values.nunique() > 1:
        values = pandas.qcut(values, _NUM_BINS, precision=2, duplicates="drop")
    is_correct = labels == predicted
    return pandas.crosstab(_mask_missing(labels), values, is_correct, aggfunc="mean")


def _check_arrays(**arguments):
    """Returns the arguments as arrays of one length."""
    arrays = {name: np.asarray(values) for name, values in arguments.items()}
    for name, array in arrays.items():
        check_shape(f"`{name}`", array.shape, ["n"], hint="one value per example")
        if len(array) != len(arrays["labels"]):
            raise ValueError(
                f"Expected one value of `{name}` for each of the {len(arrays['labels'])} labels. "
                f"Received: {len(array)} values"
            )
        if array.dtype.kind == "f" and np.isinf(array).any():
            raise ValueError(
                f"Expected finite values of `{name}`, or NaN for a missing value. Received: "
                f"{np.isinf(array).sum()} infinite values"
            )
    return arrays.values()


def _mask_missing(array):
    column = pandas.Series(array).astype(object)
    return column.where(column != -1)  # NaN otherwise, which `crosstab` leaves out
