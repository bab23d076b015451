"""Labels with missing values: -1 or NaN."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.adaptation.batch import count_examples
from dann.checks import check_class_range
from dann.data.nuisances import NUMBER

EPSILON = 1e-12  # lower bound of a divisor that may be 0


def flatten(values: Any) -> Any:
    """Returns values `(batch,)` or `(batch, 1)` as float32 `(batch,)`."""
    return ops.cast(ops.reshape(values, (-1,)), "float32")


def split_missing(values: Any, is_class: bool) -> tuple[Any, Any]:
    """Replaces missing values by 0 and returns which examples are complete.

    Args:
        values: Tensor `(batch, ...)`. NaN counts as missing; if `is_class`,
            negative numbers also count as missing.
        is_class: Whether the values are class numbers.

    Returns:
        The values, and a float32 mask `(batch,)`: 1 for each example without a missing value, 0 for
        the other examples.
    """
    values = ops.convert_to_tensor(values)
    if keras.backend.standardize_dtype(values.dtype) == "bool":  # TensorFlow does not compare bools
        values = ops.cast(values, "int32")
    # Every comparison with NaN is false.
    is_valid = values >= 0 if is_class else ops.equal(values, values)
    mask = is_valid
    if values.ndim > 1:
        mask = ops.all(ops.reshape(is_valid, (count_examples(values), -1)), axis=1)
    return ops.where(is_valid, values, ops.zeros_like(values)), ops.cast(mask, "float32")


def normalize_mask(mask: Any) -> Any:
    """Returns weights that turn a mean over all examples into a mean over the complete ones."""
    return mask / ops.maximum(ops.mean(mask), EPSILON)


def apply_sample_weights(mask: Any, weights: Any, name: str) -> Any:
    """Returns a mask `(batch,)` times the sample weights, which may be a dict or `None`."""
    sample_weights = weights.get(name) if isinstance(weights, Mapping) else weights
    return mask if sample_weights is None else mask * flatten(sample_weights)


def class_sample_weights(
    y: Mapping[str, Any], class_weight: Mapping[int, float]
) -> dict[str, np.ndarray]:
    """Returns sample weights by name: for `"label"` the weight of its class, otherwise 1."""
    weights = {name: np.ones(len(values), "float32") for name, values in y.items()}
    labels = np.asarray(y["label"])
    if labels.ndim > 1 and labels.shape[1] > 1:
        labels = labels.argmax(axis=1)
    label_weights = [class_weight.get(int(label), 1.0) for label in labels.flat]
    return weights | {"label": np.array(label_weights, "float32")}


def check_values(y: Mapping[str, Any], kinds: Mapping[str, Any]) -> None:
    """Raises a `ValueError` for labels or nuisances in memory with values of an unexpected type.

    Args:
        y: Values by name.
        kinds: By name, the number of classes, or `"number"` for finite or missing numbers.
    """
    for name, kind in kinds.items():
        values: Any = ops.convert_to_numpy(y[name])
        if values.dtype.kind not in "biuf":
            raise ValueError(
                f"Expected values of {name!r} to be numbers. Received: {values.dtype}. "
                "`np.unique(values, return_inverse=True)[1]` numbers strings. Missing values are "
                "NaN; in pandas use `values.to_numpy('float64', na_value=np.nan)`."
            )
        if kind != NUMBER:
            check_class_range(f"values of {name!r}", values[values >= 0], kind)
        elif np.isinf(values).any():
            raise ValueError(f"Expected finite values or NaN of {name!r}. Received: infinity.")
