"""Labels of which some are missing: -1 or NaN."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.adaptation.batch import size_of
from dann.checks import check_class_range
from dann.data.nuisances import NUMBER

LEAST = 1e-12  # to divide by


def flat(values: Any) -> Any:
    """Returns values `(batch,)` or `(batch, 1)` as float32 `(batch,)`."""
    return ops.cast(ops.reshape(values, (-1,)), "float32")


def weighted(known: Any, weights: Any, name: str) -> Any:
    """Returns `known` times the sample weights, which may be given by name or not at all."""
    given = weights.get(name) if isinstance(weights, Mapping) else weights
    return known if given is None else known * flat(given)


def over_known(known: Any) -> Any:
    """Returns weights with which a mean over all examples is one over those that are known."""
    return known / ops.maximum(ops.mean(known), LEAST)


def filled(values: Any, classes: bool) -> tuple[Any, Any]:
    """Returns values with 0 in place of missing ones, and which examples have one.

    Args:
        values: Tensor `(batch, ...)`; NaN is missing, and with `classes` what is below 0.
        classes: Whether the values are numbers of classes.

    Returns:
        The values, and float32 `(batch,)`: 1 for each example of which nothing is missing, else 0.
    """
    values = ops.convert_to_tensor(values)
    if keras.backend.standardize_dtype(values.dtype) == "bool":  # which TensorFlow does not order
        values = ops.cast(values, "int32")
    # Comparisons with NaN are false.
    there = values >= 0 if classes else ops.equal(values, values)
    known = ops.all(ops.reshape(there, (size_of(values), -1)), axis=1) if values.ndim > 1 else there
    return ops.where(there, values, ops.zeros_like(values)), ops.cast(known, "float32")


def weights_of_classes(y: Mapping[str, Any], class_weight: Mapping[int, float]) -> dict[str, Any]:
    """Returns sample weights by name: those of the `"label"` by its class, the others 1."""
    weights = {name: np.ones(len(values), "float32") for name, values in y.items()}
    labels = np.asarray(y["label"])
    labels = labels.argmax(axis=1) if labels.ndim > 1 and labels.shape[1] > 1 else labels
    weights["label"] = np.array([class_weight.get(int(one), 1.0) for one in labels.flat], "float32")
    return weights


def check_ranges(y: Mapping[str, Any], sizes: Mapping[str, Any]) -> None:
    """Raises a `ValueError` for arrays with numbers of classes beyond the sizes of their names."""
    for name, size in sizes.items():
        values = y.get(name)
        if isinstance(values, np.ndarray) and size != NUMBER:
            check_class_range(f"values of {name!r}", values[values >= 0], size)
