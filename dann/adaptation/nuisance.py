"""The adversarial term of one nuisance."""

from typing import Any, NamedTuple

from keras import ops

from dann.adaptation.batch import upcast_half
from dann.adaptation.missing_labels import (
    EPSILON,
    apply_sample_weights,
    flatten,
    normalize_mask,
    split_missing,
)
from dann.data.nuisances import NUMBER


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
        compute_terms = self._number_terms if self.kind == NUMBER else self._class_terms
        terms, statistics = compute_terms(values, mask, weights, outputs)
        if training:
            self.statistics.assign(statistics)
        return {f"{self.name}/{term}": value for term, value in terms.items()}

    def _class_terms(self, values, mask, weights, logits):
        values = ops.cast(values, "int32")
        one_hot = ops.one_hot(values, logits.shape[-1], dtype="float32")  # (batch, K)
        counts = self.statistics + ops.matmul(mask, one_hot)
        frequencies = counts
        if self.is_balanced:
            # w = N / (K N_k), over the K values that occurred so far.
            frequencies = ops.cast(counts > 0, "float32")
            num_values = ops.maximum(ops.sum(frequencies), 1)
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
            "chance": ops.max(frequencies) / ops.maximum(ops.sum(frequencies), 1),
        }
        return terms, counts

    def _number_terms(self, values, mask, weights, outputs):
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
