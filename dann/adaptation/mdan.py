import keras
from keras import ops

from dann.adaptation import masks
from dann.adaptation.adversarial_model import AdversarialModel
from dann.adaptation.forward_pass import through_reversal
from dann.adaptation.methods import METHODS
from dann.adaptation.model_parts import copy_of, fitting_domain_head
from dann.adaptation.plain_network import shapes_of
from dann.checks import check_choice, check_integer, check_number

WEIGHTINGS = ("soft", "hard")


@METHODS.register(
    "mdan",
    summary="several sources, the worst counts most: `data.sources=[a,b]`",
    when="more than one source",
)
@keras.saving.register_keras_serializable("dann")
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
    `dann.data.several_sources` gives them. Without it, or if `num_sources` is 1, all examples are
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

    takes_maps = True

    def __init__(
        self,
        backbone,
        num_classes=None,
        label_head=None,
        domain_head=None,
        strength=1.0,
        way="override",
        passes="joint",
        domain_label_smoothing=0.0,
        num_sources=1,
        weighting="soft",
        gamma=10.0,
        **kwargs,
    ):
        super().__init__(backbone, num_classes, label_head, strength, way, passes, **kwargs)
        self.domain_label_smoothing = check_number(
            "domain_label_smoothing", domain_label_smoothing, low=0, high=0.5
        )
        self.num_sources = check_integer("num_sources", num_sources, low=1)
        self.weighting = check_choice("weighting", weighting, WEIGHTINGS)
        self.gamma = check_number("gamma", gamma, low=0, above=True)
        self.domain_head = domain_head
        self.when_known(self._fit_domain_head)
        self.track("domain/loss")
        self.trackers["domain/accuracy"] = keras.metrics.Mean(name="domain/accuracy")

    def _fit_domain_head(self):
        outputs = (1, self.num_sources)
        head = fitting_domain_head(self.domain_head, self.feature_shape, outputs)
        if self.num_sources == 1 or shapes_of(head)[1][-1] == self.num_sources:
            self.domain_head = head
            return
        inputs = keras.Input(shapes_of(head)[0][1:], name="features")
        copies = [copy_of(head) for _ in range(self.num_sources)]
        logits = []
        for index, copy in enumerate(copies):
            copy.name = f"{head.name}_{index}"
            logits.append(copy(inputs))
        outputs = ops.concatenate(logits, axis=-1)
        self.domain_head = keras.Model(inputs, outputs, name=head.name)

    def adversary(self, features, logits, training, reversal):
        return through_reversal(reversal, self.domain_head, features, training)

    def domain_scores(self, forward):
        # With several sources each example has a discriminator that is not meant for it.
        return forward.adversary if self.num_sources == 1 else None

    def label_loss(self, x, y, forward, sample_weight=None, training=True):
        weights, errors, _ = self._bound(x, y, forward, sample_weight, training)
        return ops.sum(weights * errors)

    def pair_losses(self, x, y, forward, sample_weight=None, training=True):
        weights, errors, domain = self._bound(x, y, forward, sample_weight, training)
        adversarial = {"domain/loss": ops.sum(ops.cast(weights, domain.dtype) * domain)}
        return self.gathered(x, y, forward, ops.sum(weights * errors), adversarial)

    def logged(self, x, y, forward):
        source, target = forward.adversary
        right = ops.cast(source < 0, source.dtype), ops.cast(target > 0, target.dtype)
        return {"domain/accuracy": (self._halved_means(*right, x, forward),)}

    def _bound(self, x, y, forward, sample_weight, training):
        """`w`, `E` and `D`, each `(num_sources,)`."""
        errors = self._label_losses(x, y, forward, sample_weight, training)
        domain = self._domain_losses(x, forward)
        return self._weights(x, forward, errors - ops.cast(domain, errors.dtype)), errors, domain

    def _label_losses(self, x, y, forward, sample_weight, training):
        """`E_i` of each source, `(num_sources,)`."""
        members = self._members(x, forward)
        errors = []
        for index in range(self.num_sources):
            # The mean over one source, as a mean over the batch with weights 0 for the others.
            weight = masks.of_positions(members[:, index], forward.label)
            share = masks.mean(weight, masks.mask_of(forward.label))  # of the positions
            weight = weight / ops.maximum(share, 1e-9)  # 0 examples are possible
            if sample_weight is not None:
                given = masks.of_positions(sample_weight, forward.label)
                weight = weight * ops.cast(given, weight.dtype)
            errors.append(ops.mean(self.compiled_loss(x, y, forward.label, weight, training)))
        return ops.stack(errors)

    def _members(self, x, forward):
        """1 where a source learns from a labelled example, otherwise 0: `(batch, num_sources)`."""
        count = ops.shape(forward.label)[0]
        size = ops.shape(forward.logits["source"])[0]
        sources = ops.zeros((size,), "int32")
        if self.num_sources > 1 and "source_domain" in x:
            sources = ops.cast(ops.reshape(x["source_domain"], (-1,)), "int32")
        its = ops.one_hot(sources, self.num_sources)
        # A compiled step cannot raise an error, so a wrong number gives NaN.
        its = ops.where(ops.any(its != 0, axis=1, keepdims=True), its, float("nan"))
        # The labelled target follows the source; every source learns from it.
        return ops.concatenate([its, ops.ones((count - ops.shape(its)[0], self.num_sources))])

    def _domain_losses(self, x, forward):
        """`D_i` of each source, `(num_sources,)`."""
        source, target = forward.adversary
        smoothing = self.domain_label_smoothing  # the label of the source; the target's is 1 - it
        of_source = ops.softplus(source) - smoothing * source
        of_target = ops.softplus(-target) + smoothing * target
        return self._halved_means(of_source, of_target, x, forward)

    def _halved_means(self, of_source, of_target, x, forward):
        """Half of the mean of column `i` over source `i` and the target, `(num_sources,)`."""
        members = self._members(x, forward)[: ops.shape(of_source)[0]]
        source, target = forward.adversary
        return (_means(of_source, source, members) + _means(of_target, target)) / 2

    def _weights(self, x, forward, bounds):
        """`w` of each source, `(num_sources,)`."""
        members = self._members(x, forward)[: ops.shape(forward.logits["source"])[0]]
        bounds = ops.where(ops.any(members != 0, axis=0), bounds, float("-inf"))
        if self.weighting == "hard" or self.num_sources == 1:
            return ops.one_hot(ops.argmax(bounds), self.num_sources, dtype=bounds.dtype)
        return ops.stop_gradient(ops.softmax(self.gamma * bounds))

    def get_config(self):
        return {
            **super().get_config(),
            "domain_head": keras.saving.serialize_keras_object(self.domain_head),
            "domain_label_smoothing": self.domain_label_smoothing,
            "num_sources": self.num_sources,
            "weighting": self.weighting,
            "gamma": self.gamma,
        }


def _means(values, scores, members=None):
    """The mean of each column of values `(batch, ..., k)` over its members `(batch, k)`."""
    weights, mask = ops.ones_like(values), masks.mask_of(scores)
    if members is not None:
        positions = (1,) * (len(values.shape) - 2)
        weights *= ops.reshape(ops.cast(members, values.dtype), (-1, *positions, values.shape[-1]))
    if mask is not None:
        weights *= ops.expand_dims(ops.cast(mask, values.dtype), -1)
    return masks.mean(values, weights, axis=tuple(range(len(values.shape) - 1)))
