from typing import Any, Unpack

import keras
import numpy as np
from keras import ops

from dann.adaptation.adversarial_model import METHODS, AdversarialModel
from dann.adaptation.batch import (
    DOMAIN_TERMS,
    check_smoothing,
    count_examples,
    expand_sample_weights,
    is_pair,
)
from dann.adaptation.networks import make_domain_head
from dann.adaptation.options import DEFAULT_STRENGTH, ReversalOptions
from dann.checks import check_choice, check_integer, check_number
from dann.data.pairs import Pairs
from dann.schedules import StrengthSchedule

WEIGHTINGS = ("soft", "hard")


@METHODS.register("mdan")
class MDAN(AdversarialModel):
    """Multisource domain adversarial network: DANN with several sources.

    Each source has its own discriminator, which distinguishes it from the target. Sources with a
    large label loss and a small discriminator loss have large weights.

    `E_i` is the mean label loss of source `i`. `D_i` is the loss of its discriminator: the mean of
    two binary cross-entropies from logits, over the examples of source `i` (domain label 0) and
    over the target (1). With weights `w`, which receive no gradient, each step minimizes

    - for the label head: `sum_i w_i E_i`
    - for the discriminators: `sum_i w_i D_i`
    - for the features: `sum_i w_i (E_i - strength * D_i)`

    With `domain_label_smoothing` `e` the discriminators learn the labels `e` and `1 - e` (ELS).

    With `weighting="soft"`, `w = softmax(gamma * (E - D))`, so the backbone minimizes
    `log(sum_i exp(gamma * (E_i - D_i))) / gamma`. With `weighting="hard"`, `w` is 1 for the source
    with the largest `E_i - D_i` and 0 for the other sources; this is the maximum in the bound of
    the paper. With one source, the method is DANN.

    Pairs for `fit` contain `"source_domain"`, integers `(batch,)` from 0 to `num_sources - 1`;
    `dann.data.join_sources` makes such pairs. Without this entry, all examples belong to source 0.
    In a dataset of batches, a number out of range makes the loss NaN. A source without an example
    in the batch has weight 0 in this step.

    Features may be maps; see `DANN`. Each mean then includes the positions.

    In training the logs also contain `domain/loss`, which is `sum_i w_i D_i`, and the mean
    `domain/accuracy` of all discriminators.

    Args:
        backbone: Network from inputs to features, which may be maps; see `AdversarialModel`.
        num_classes: Number of classes. Required without a `label_head`.
        label_head: Network from features to logits; see `AdversarialModel`.
        strength: Strength of the gradient reversal; see `DANN`. Defaults to `0.1`.
        domain_head: Functional model from features to one logit per source, above 0 for the
            target. A head with a single logit is copied for each source, with new weights.
            Defaults to copies of `dann.networks.domain_head`.
        domain_label_smoothing: Probability that the domain labels assign to the wrong domain; see
            `DANN`. Defaults to `0.0`.
        num_sources: Number of sources, at least 1. Defaults to `None`: the first `fit` on pairs of
            arrays sets it to their number of sources.
        weighting: `"soft"` (default) or `"hard"`.
        gamma: Sharpness of the soft weights, above 0. Defaults to `10.0`.
        **options: The other options of `AdversarialModel`.

    Raises:
        ValueError: If a number is out of range, or the number of logits of the domain head is
            neither 1 nor `num_sources`.

    Reference:
        - [Zhao et al., 2018](https://arxiv.org/abs/1705.09684), equations 4 (the hard maximum), 5
          (the soft maximum) and 6 (the weights in its gradient), and algorithm 1.
        - [Zhang et al., 2023](https://arxiv.org/abs/2302.00194), equation 3, for smoothed labels.
    """

    terms = DOMAIN_TERMS
    arguments = ("domain_head", "domain_label_smoothing", "num_sources", "weighting", "gamma")
    supports_maps = True

    def __init__(
        self,
        backbone: Any,
        num_classes: int | None = None,
        label_head: Any = None,
        *,
        strength: float | StrengthSchedule = DEFAULT_STRENGTH,
        domain_head: Any = None,
        domain_label_smoothing: float = 0.0,
        num_sources: int | None = None,
        weighting: str = "soft",
        gamma: float = 10.0,
        **options: Unpack[ReversalOptions],
    ):
        super().__init__(backbone, num_classes, label_head, strength=strength, **options)
        self.domain_label_smoothing = check_smoothing(domain_label_smoothing)
        self._infers_sources = num_sources is None
        self.num_sources = check_integer("num_sources", num_sources or 1, low=1)
        self.weighting = check_choice("weighting", weighting, WEIGHTINGS)
        self.gamma = check_number("gamma", gamma, low=0, exclude_low=True)
        head = make_domain_head(domain_head, self.feature_shape, (1, self.num_sources))
        self.domain_head = _copy_per_source(head, self.feature_shape, self.num_sources)

    def fit(self, x=None, *args, **kwargs):
        if is_pair(x) or isinstance(x, Pairs):
            self._set_sources(x)
        return super().fit(x, *args, **kwargs)

    def _set_sources(self, x):
        """Sets the number of sources, or raises a `ValueError` if the pairs have another number."""
        if isinstance(x, Pairs):
            examples = getattr(x.domains["source"], "examples", None)
            sources = examples.columns.get("domain") if examples else None
        else:
            sources = x.get("source_domain")
        if sources is None and self.num_sources == 1:
            return
        array: Any = [] if sources is None else ops.convert_to_numpy(sources)
        numbers = np.unique(array).tolist()
        count = len(numbers) if self._infers_sources else self.num_sources
        if not numbers or numbers != list(range(count)):
            received = f"numbers {numbers[:5]}" if numbers else "pairs without sources"
            raise ValueError(
                f"Expected pairs with `source_domain`, all integers from 0 to {count - 1}, "
                f"for num_sources={count}. Received: {received}. Set `num_sources` to "
                "the number of sources, and number them from 0 with "
                "`np.unique(sources, return_inverse=True)[1]`."
            )
        if count != self.num_sources:
            if self.optimizer and self.optimizer.built:
                raise ValueError(
                    f"Expected `num_sources={count}` in the constructor, because the optimizer was "
                    "built before this `fit`. Received: num_sources=None."
                )
            head = _copy_per_source(self.domain_head, self.feature_shape, count)
            self._tracker.untrack(self.domain_head)  # Keras would keep the weights of the old head
            self.domain_head, self.num_sources = head, count
        self._infers_sources = False

    def domain_scores(self, batch, reversal, training):
        # With several sources, most discriminators are not trained on a given source example.
        if self.num_sources > 1:
            return None
        return batch.apply_reversed(self.domain_head, reversal, training)

    def method_losses(self, batch, reversal, training):
        scores = batch.apply_reversed(self.domain_head, reversal, training)
        source, target = batch.split_domains(scores)  # (batch, ..., num_sources) each
        source_one_hot = self._encode_sources(batch)
        # BCE from logits z with label y is softplus(z) - y z; the label is `smoothing` for the
        # source and `1 - smoothing` for the target.
        smoothing = self.domain_label_smoothing
        source_losses = ops.softplus(source) - smoothing * source
        target_losses = ops.softplus(-target) + smoothing * target
        domain_losses = _average_domains(source_losses, target_losses, source_one_hot)  # D_i
        label_losses = self._label_losses(batch, source_one_hot)  # E_i
        # E_i - D_i, the bound of the target's risk from source i, `(num_sources,)`
        source_risks = label_losses - ops.cast(domain_losses, label_losses.dtype)
        is_present = ops.any(source_one_hot != 0, axis=0)
        source_risks = ops.where(is_present, source_risks, float("-inf"))
        if self.weighting == "hard" or self.num_sources == 1:
            largest = ops.argmax(source_risks)
            weights = ops.one_hot(largest, self.num_sources, dtype=source_risks.dtype)
        else:
            weights = ops.stop_gradient(ops.softmax(self.gamma * source_risks))  # equation 6
        accuracies = _average_domains(
            ops.cast(source < 0, "float32"), ops.cast(target > 0, "float32"), source_one_hot
        )
        return {
            "label/loss": ops.sum(weights * label_losses),
            "domain/loss": ops.sum(ops.cast(weights, domain_losses.dtype) * domain_losses),
            "domain/accuracy": ops.mean(accuracies),
        }

    def _encode_sources(self, batch):
        """Returns the source of each source example, one-hot `(batch, num_sources)`."""
        sources = ops.zeros((count_examples(batch.features["source"]),), "int32")
        if "source_domain" in batch.inputs:
            if self._infers_sources:
                raise ValueError(
                    "Expected `num_sources=<number of sources>`, because the sources in a dataset "
                    "cannot be counted. Received: num_sources=None."
                )
            sources = ops.cast(ops.reshape(batch.inputs["source_domain"], (-1,)), "int32")
        source_one_hot = ops.one_hot(sources, self.num_sources)
        # A compiled step cannot raise an error, so a number out of range gives NaN.
        return ops.where(
            ops.any(source_one_hot != 0, axis=1, keepdims=True), source_one_hot, float("nan")
        )

    def _label_losses(self, batch, source_one_hot):
        """Returns `E_i` of each source, `(num_sources,)`."""
        logits = batch.label_logits
        # The labeled target follows the source and belongs to every source.
        num_target = count_examples(logits) - count_examples(source_one_hot)
        source_one_hot = ops.concatenate([source_one_hot, ops.ones((num_target, self.num_sources))])
        losses = []
        for index in range(self.num_sources):
            # A mean over one source is a mean over the batch with weight 0 for other sources.
            share = ops.maximum(ops.mean(source_one_hot[:, index]), 1e-9)  # 0 if absent
            weights = expand_sample_weights(source_one_hot[:, index] / share, logits)
            if batch.weights is not None:
                sample_weights = expand_sample_weights(batch.weights, logits)
                weights = weights * ops.cast(sample_weights, weights.dtype)
            losses.append(self.label_loss(batch.labels, logits, weights))
        return ops.stack(losses)


def _copy_per_source(head, features, count):
    """Returns a network with one output per source: the head, or copies of it in parallel."""
    if count == 1 or head(keras.KerasTensor(features)).shape[-1] == count:
        return head
    inputs = keras.Input(features[1:], name="features")
    config, names = head.get_config(), [f"{head.name}_{index}" for index in range(count)]
    copies = [type(head).from_config({**config, "name": name}) for name in names]
    outputs = ops.concatenate([copy(inputs) for copy in copies], axis=-1)
    return keras.Model(inputs, outputs, name=head.name)


def _average_domains(source_values, target_values, source_one_hot):
    """Returns, per discriminator `i`, the average of two means, `(num_sources,)`.

    One mean is over the rows of source `i`, the other over all rows of the target.
    """
    axes = tuple(range(len(source_values.shape) - 1))
    shape = (-1, *(1 for _ in axes[1:]), source_values.shape[-1])
    source_one_hot = ops.reshape(ops.cast(source_one_hot, source_values.dtype), shape)
    weights = ops.ones_like(source_values) * source_one_hot
    total = ops.maximum(ops.sum(weights, axis=axes), 1.0)  # (num_sources,), 1 if absent
    source_means = ops.sum(weights * source_values, axis=axes) / total
    return (source_means + ops.mean(target_values, axis=axes)) / 2
