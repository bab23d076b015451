from typing import Any

import keras
from keras import ops

from dann.adaptation.adversarial_model import METHODS, AdversarialModel
from dann.adaptation.batch import DOMAIN_TERMS, check_smoothing, size_of, weights_of_positions
from dann.adaptation.networks import fitting_domain_head
from dann.checks import check_choice, check_integer, check_number

WEIGHTINGS = ("soft", "hard")


@METHODS.register("mdan")
class MDAN(AdversarialModel):
    """Multisource domain adversarial network: DANN from several sources at once.

    Each source has its own discriminator against the target. A source counts the more, the larger
    its label loss and the smaller its discriminator's loss.

    `E_i` is the mean label loss of source `i`. `D_i` is the loss of its discriminator: the mean of
    two binary cross-entropies from logits, over the examples of source `i` (domain label 0) and
    over the target (1). With weights `w`, which get no gradient, one step descends

    - for the label head: `sum_i w_i E_i`
    - for the discriminators: `sum_i w_i D_i`
    - for the features: `sum_i w_i (E_i - strength * D_i)`

    With `domain_label_smoothing` `e` the discriminators learn the labels `e` and `1 - e` (ELS).

    `weighting="soft"`: `w = softmax(gamma * (E - D))`, so that the features descend
    `log(sum_i exp(gamma * (E_i - D_i))) / gamma`; `"hard"`: 1 for the source with the largest
    `E_i - D_i` and 0 for the others, the maximum of the paper's bound. With one source it is DANN.

    Pairs for `fit` hold `"source_domain"`, integers `(batch,)` below `num_sources`, as
    `dann.data.join_sources` gives them. Without it, or if `num_sources` is 1, all examples are
    of source 0. A number out of range makes the loss NaN. A source without an example in the batch
    has no weight in that step.

    Features may be maps, as in `DANN`; each mean is then over positions.

    In training the logs also hold `domain/loss`, which is `sum_i w_i D_i`, and `domain/accuracy` of
    all discriminators.

    Args:
        domain_head: Functional model from features to one logit for each source, above 0 for the
            target. A head with a single logit is copied for each source; each copy has weights of
            its own. Defaults to such copies of `dann.networks.domain_head`.
        domain_label_smoothing: See `DANN`; of each discriminator.
        num_sources: Number of sources, at least 1. Defaults to `1`.
        weighting: `"soft"` (default) or `"hard"`.
        gamma: How sharply the soft weights tell the sources apart, above 0. Defaults to `10.0`.

    The other arguments are those of `AdversarialModel`.

    Reference:
        - [Zhao et al., 2018](https://arxiv.org/abs/1705.09684), equations 4 (the hard maximum), 5
          (the smooth one) and 6 (the weights in its gradient), and algorithm 1.
        - [Zhang et al., 2023](https://arxiv.org/abs/2302.00194), equation 3, for smoothed labels.
    """

    terms = DOMAIN_TERMS
    arguments = ("domain_head", "domain_label_smoothing", "num_sources", "weighting", "gamma")
    supports_maps = True

    def __init__(
        self,
        *args,
        domain_head: Any = None,
        domain_label_smoothing: float = 0.0,
        num_sources: int = 1,
        weighting: str = "soft",
        gamma: float = 10.0,
        **kwargs,
    ):
        super().__init__(*args, **kwargs)
        self.domain_label_smoothing = check_smoothing(domain_label_smoothing)
        self.num_sources = check_integer("num_sources", num_sources, low=1)
        self.weighting = check_choice("weighting", weighting, WEIGHTINGS)
        self.gamma = check_number("gamma", gamma, low=0, above=True)
        head = fitting_domain_head(domain_head, self.feature_shape, (1, self.num_sources))
        self.domain_head = _for_each_source(head, self.feature_shape, self.num_sources)

    def domain_scores(self, batch, reversal, training):
        # With several sources each example has a discriminator that is not meant for it.
        if self.num_sources > 1:
            return None
        return batch.behind_reversal(self.domain_head, reversal, training)

    def method_losses(self, batch, labels, reversal, training):
        scores = batch.behind_reversal(self.domain_head, reversal, training)
        source, target = batch.split_domains(scores)
        members = self._members(batch)
        smoothing = self.domain_label_smoothing  # the label of the source; the target's is 1 - it
        of_source = ops.softplus(source) - smoothing * source
        of_target = ops.softplus(-target) + smoothing * target
        domain = _halved_means(of_source, of_target, members)
        errors = self._label_losses(batch, labels, members)
        weights = self._weights(members, errors - ops.cast(domain, errors.dtype))
        right_source, right_target = (ops.cast(one, "float32") for one in (source < 0, target > 0))
        return {
            "label/loss": ops.sum(weights * errors),
            "domain/loss": ops.sum(ops.cast(weights, domain.dtype) * domain),
            "domain/accuracy": ops.mean(_halved_means(right_source, right_target, members)),
        }

    def _members(self, batch):
        """1 for the source of an example of the sources, otherwise 0: `(batch, num_sources)`."""
        size = size_of(batch.features["source"])
        sources = ops.zeros((size,), "int32")
        if self.num_sources > 1 and "source_domain" in batch.inputs:
            sources = ops.cast(ops.reshape(batch.inputs["source_domain"], (-1,)), "int32")
        members = ops.one_hot(sources, self.num_sources)
        # A compiled step cannot raise an error, so a wrong number gives NaN.
        return ops.where(ops.any(members != 0, axis=1, keepdims=True), members, float("nan"))

    def _label_losses(self, batch, labels, members):
        """`E_i` of each source, `(num_sources,)`."""
        logits = batch.label_logits
        # The labelled target follows the source; every source learns from it.
        others = ops.ones((size_of(logits) - size_of(members), self.num_sources))
        members = ops.concatenate([members, others])
        errors = []
        for index in range(self.num_sources):
            # The mean over one source, as a mean over the batch with weights 0 for the others.
            share = ops.maximum(ops.mean(members[:, index]), 1e-9)  # 0 examples are possible
            weights = weights_of_positions(members[:, index] / share, logits)
            if batch.weights is not None:
                given = weights_of_positions(batch.weights, logits)
                weights = weights * ops.cast(given, weights.dtype)
            errors.append(self.label_loss(labels, logits, weights))
        return ops.stack(errors)

    def _weights(self, members, bounds):
        """`w` of each source, `(num_sources,)`."""
        bounds = ops.where(ops.any(members != 0, axis=0), bounds, float("-inf"))
        if self.weighting == "hard" or self.num_sources == 1:
            return ops.one_hot(ops.argmax(bounds), self.num_sources, dtype=bounds.dtype)
        return ops.stop_gradient(ops.softmax(self.gamma * bounds))


def _for_each_source(head, features, count):
    """A network of one output for each source: the head, or copies of it side by side."""
    if count == 1 or head(keras.KerasTensor(features)).shape[-1] == count:
        return head
    inputs = keras.Input(features[1:], name="features")
    config, names = head.get_config(), [f"{head.name}_{index}" for index in range(count)]
    copies = [type(head).from_config({**config, "name": name}) for name in names]
    outputs = ops.concatenate([copy(inputs) for copy in copies], axis=-1)
    return keras.Model(inputs, outputs, name=head.name)


def _halved_means(of_source, of_target, members):
    """Half of the mean of column `i` over source `i` and the target, `(num_sources,)`."""
    axes = tuple(range(len(of_source.shape) - 1))
    shape = (-1, *(1 for _ in axes[1:]), of_source.shape[-1])
    weights = ops.ones_like(of_source) * ops.reshape(ops.cast(members, of_source.dtype), shape)
    share = ops.maximum(ops.sum(weights, axis=axes), 1.0)
    return (ops.sum(weights * of_source, axis=axes) / share + ops.mean(of_target, axis=axes)) / 2
