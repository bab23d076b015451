"""The adversarial term of one nuisance, and labels with missing values: -1 or NaN."""

import numbers
from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from dann.adaptation.batch import count_examples, upcast_half
from dann.checks import check_class_range
from dann.data.nuisances import NUMBER

EPSILON = 1e-12  # lower bound of a divisor that may be 0


class Nuisance(NamedTuple):
    """A nuisance of `Invariant`: its head, its reversal, and the statistics of its values.

    Attributes:
        name: Name of the nuisance in the labels.
        kind: Number of values `K`, or `"number"`.
        head: Network from the reversed features to `K` logits or one number.
        statistics: Weight with statistics of all values in training so far. For `K` values: counts
            `(K,)`. For a number: count, mean and sum of squared deviations, `(3,)`.
        reversal: Reversal of this nuisance alone, or `None` for the reversal of the model.
        is_balanced: Whether rare values count as much as frequent values.
    """

    name: str
    kind: int | str
    head: Any
    statistics: Any
    reversal: Any
    is_balanced: bool

    def losses(self, model: Any, batch: Any, features: Any, training: bool) -> dict[str, Any]:
        """Returns the terms of the nuisance.

        For a categorical nuisance these are `loss`, `accuracy`, and `chance`, the accuracy of
        always predicting the most frequent value. For a numeric nuisance there is only `loss`.

        Args:
            model: The model.
            batch: The batch.
            features: Features after the reversal, `(batch, num_features)`.
            training: Whether this is a training step.
        """
        values, mask = split_missing(batch.labels[self.name], is_class=self.kind != NUMBER)
        if model.condition_on_label:
            features, label_mask = model.join_label(features, batch.labels)
            mask = mask * label_mask
        outputs = upcast_half(self.head(features, training=training))
        weights = apply_sample_weights(normalize_mask(mask), batch.weights, self.name)
        values = ops.reshape(values, (-1,))
        compute_terms = self._compare_numbers if self.kind == NUMBER else self._compare_classes
        terms, statistics = compute_terms(values, mask, weights, outputs)
        if training:
            self.statistics.assign(statistics)
        return {f"{self.name}/{term}": value for term, value in terms.items()}

    def _compare_classes(self, values, mask, weights, logits):
        values = ops.cast(values, "int32")
        one_hot = ops.one_hot(values, logits.shape[-1], dtype="float32")  # (batch, K)
        counts = self.statistics + ops.matmul(mask, one_hot)
        value_counts = counts
        if self.is_balanced:
            # w = N / (K N_k), for the K values that have occurred so far.
            value_counts = ops.cast(counts > 0, "float32")
            num_values = ops.maximum(ops.sum(value_counts), 1)
            balance_weights = ops.sum(counts) / (num_values * ops.maximum(counts, 1))
            weights = weights * ops.matmul(one_hot, balance_weights)
        # A compiled step cannot raise an error, so a value out of range gives NaN.
        weights = ops.where(values < logits.shape[-1], weights, float("nan"))
        losses = ops.categorical_crossentropy(one_hot, logits, from_logits=True)
        predictions = ops.cast(ops.argmax(logits, axis=-1), "int32")  # the first of equal logits
        is_correct = ops.cast(ops.equal(predictions, values), "float32")
        terms = {
            "loss": ops.mean(weights * losses),
            "accuracy": ops.sum(weights * is_correct) / ops.maximum(ops.sum(weights), EPSILON),
            "chance": ops.max(value_counts) / ops.maximum(ops.sum(value_counts), 1),
        }
        return terms, counts

    def _compare_numbers(self, values, mask, weights, outputs):
        values = flatten(values)
        count, mean, squares = (self.statistics[index] for index in range(3))
        batch_count = ops.sum(mask)
        total = ops.maximum(count + batch_count, 1)
        batch_mean = ops.sum(mask * values) / ops.maximum(batch_count, 1)
        # Chan et al.'s parallel update of the sum of squared deviations. Without `+=`, which torch
        # would apply to the variable in place.
        batch_squares = ops.sum(mask * ops.square(values - batch_mean))
        between_squares = ops.square(batch_mean - mean) * count * batch_count / total
        squares = squares + batch_squares + between_squares
        mean = mean + (batch_mean - mean) * batch_count / total
        standardized = (values - mean) / ops.sqrt(ops.maximum(squares / total, EPSILON))
        loss = ops.mean(weights * ops.square(flatten(outputs) - standardized))
        return {"loss": loss}, ops.stack([count + batch_count, mean, squares])


def flatten(values: Any) -> Any:
    """Returns values `(batch,)` or `(batch, 1)` as float32 `(batch,)`."""
    return ops.cast(ops.reshape(values, (-1,)), "float32")


def split_missing(values: Any, is_class: bool) -> tuple[Any, Any]:
    """Replaces missing values by 0, and returns a mask of the examples without missing values.

    Args:
        values: Tensor `(batch, ...)`. NaN is a missing value; if `is_class`, so are negative
            numbers.
        is_class: Whether the values are class numbers.

    Returns:
        The values, and a float32 mask `(batch,)`: 0 for each example with a missing value, else 1.
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
    """Returns `mask / mean(mask)`; weighted by it, a batch mean covers only unmasked examples."""
    return mask / ops.maximum(ops.mean(mask), EPSILON)


def apply_sample_weights(mask: Any, weights: Any, name: str) -> Any:
    """Returns the product of a mask `(batch,)` and sample weights, a tensor, a dict or `None`."""
    sample_weights = weights.get(name) if isinstance(weights, Mapping) else weights
    return mask if sample_weights is None else mask * flatten(sample_weights)


def class_sample_weights(
    y: Mapping[str, Any] | None, class_weight: Mapping[int, float]
) -> dict[str, np.ndarray]:
    """Returns sample weights by name: for `"label"` the class weight of each example, else 1.

    Raises:
        TypeError: If `class_weight` is not a dict, or a key is not a number.
        ValueError: If `y` has no `"label"`, or is in a dataset.
    """
    if y is None or "label" not in y:
        received = "a dataset" if y is None else f"values named {sorted(y)}"
        raise ValueError(
            "Expected a label named 'label' in memory, because of `class_weight`. Received: "
            f"{received}. Use sample weights by the name of a label, such as {{'label': weights}}"
        )
    is_dict = isinstance(class_weight, Mapping)
    if not is_dict or not all(isinstance(key, numbers.Real) for key in class_weight):
        raise TypeError(
            "Expected `class_weight` to be a dict from numbers of classes to weights. Received: "
            f"class_weight={class_weight!r}"
        )
    weights = {name: np.ones(len(values), "float32") for name, values in y.items()}
    labels = np.asarray(y["label"])
    if labels.ndim > 1 and labels.shape[1] > 1:
        labels = labels.argmax(axis=1)
    label_weights = [class_weight.get(int(label), 1.0) for label in labels.flat]
    return weights | {"label": np.array(label_weights, "float32")}


def convert_values(y: Any, kinds: Mapping[str, Any]) -> Any:
    """Returns labels and nuisances in memory as arrays.

    Args:
        y: Values by name. Others, such as labels alone, are returned unchanged.
        kinds: By name, the number of classes, or `"number"` for finite or missing numbers.

    Raises:
        ValueError: If values have an unexpected type or are out of range.
    """
    if not isinstance(y, Mapping):
        return y
    y = {k: v if ops.is_tensor(v) else np.asarray(v) for k, v in y.items()}
    for name in filter(y.__contains__, kinds):
        kind = kinds[name]
        values: Any = ops.convert_to_numpy(y[name])
        if values.dtype.kind not in "biuf":
            raise ValueError(
                f"Expected values of {name!r} to be numbers. Received: {values.dtype}. "
                "`np.unique(values, return_inverse=True)[1]` converts strings to class numbers. "
                "Missing values are NaN; in pandas use `values.to_numpy('float64', "
                "na_value=np.nan)`."
            )
        if kind != NUMBER:
            check_class_range(f"values of {name!r}", values[values >= 0], kind)
        elif np.isinf(values).any():
            raise ValueError(f"Expected finite values or NaN of {name!r}. Received: infinity.")
    return y
