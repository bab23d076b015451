from typing import Any, Unpack

from keras import ops

from dann.adaptation.adversarial_model import METHODS, AdversarialModel
from dann.adaptation.batch import DOMAIN_TERMS, check_smoothing, upcast_half
from dann.adaptation.networks import make_domain_head
from dann.adaptation.options import DEFAULT_STRENGTH, ReversalOptions
from dann.adaptation.regularizers.conditional_entropy import certainty_weights
from dann.layers import MultilinearMap
from dann.schedules import StrengthSchedule


@METHODS.register("cdan")
@METHODS.register("cdan_e", arguments={"entropy_conditioning": True})
@METHODS.register("sdat", arguments={"task_radius": 0.05})
class CDAN(AdversarialModel):
    """Conditional domain-adversarial network.

    DANN whose discriminator receives every product of a feature and a predicted probability, so
    that the domains are aligned class by class.

    With features `f`, label head `c`, predictions `g = softmax(c(f))`, `T` the map of
    `dann.layers.MultilinearMap`, discriminator `d`, domain label 0 for source and 1 for target and
    `CE`, `BCE` the cross-entropies from logits, each step minimizes

    - for `c`: `mean_s CE(c(f(x_s)), y_s)`
    - for `d`: `D = mean over both domains of w(x) * BCE(d(T(f(x), g(x))), domain)`
    - for `f`: `mean_s CE(c(f(x_s)), y_s) - strength * D`

    The predictions receive no gradient from `D`. Without `entropy_conditioning` each `w` is 1. With
    `entropy_conditioning` (CDAN+E) confident predictions have larger weights: `w = 1 + exp(-H(g))`,
    with the entropy `H`, divided by its mean over the domain's part of the batch. `w` receives no
    gradient either.

    In training the logs also contain `domain/loss` and `domain/accuracy`.

    Args:
        backbone: Network from inputs to features; see `AdversarialModel`.
        num_classes: Number of classes. Required without a `label_head`.
        label_head: Network from features to logits; see `AdversarialModel`.
        strength: Strength of the gradient reversal; see `DANN`. Defaults to `0.1`.
        domain_head: Network from `min(num_features * num_classes, max_units)` products to one
            logit, or a function that builds it; see `DANN`.
        domain_label_smoothing: Probability that the domain labels assign to the wrong domain; see
            `DANN`. Defaults to `0.0`.
        entropy_conditioning: Whether confident predictions have larger weights. Defaults to
            `False`.
        max_units: Maximum number of products. Above it, random projections replace the products.
            Defaults to `4096`.
        **options: The other options of `AdversarialModel`.

    Example:

    >>> import dann
    >>> model = dann.CDAN(dann.networks.mlp_backbone((2,), hidden_units=(8,)), num_classes=3)
    >>> model.domain_head.input_shape
    (None, 24)

    Reference:
        - [Long et al., 2018](https://arxiv.org/abs/1705.10667), section 3: multilinear and
          entropy conditioning, and theorem 1 for the random projections.
    """

    terms = DOMAIN_TERMS
    arguments = ("domain_head", "domain_label_smoothing", "entropy_conditioning", "max_units")
    needs_target_logits = True
    needs_classes = True

    def __init__(
        self,
        backbone: Any,
        num_classes: int | None = None,
        label_head: Any = None,
        *,
        strength: float | StrengthSchedule = DEFAULT_STRENGTH,
        domain_head: Any = None,
        domain_label_smoothing: float = 0.0,
        entropy_conditioning: bool = False,
        max_units: int = 4096,
        **options: Unpack[ReversalOptions],
    ):
        super().__init__(backbone, num_classes, label_head, strength=strength, **options)
        self.entropy_conditioning = entropy_conditioning
        self.domain_label_smoothing = check_smoothing(domain_label_smoothing)
        self.max_units = max_units
        self.multilinear_map = MultilinearMap(max_units, name="multilinear_map")
        shapes = [self.feature_shape, (None, self.num_classes)]
        self.multilinear_map.build(shapes)
        products_shape = self.multilinear_map.compute_output_shape(shapes)
        self.domain_head = make_domain_head(domain_head, products_shape)

    def domain_scores(self, batch, reversal, training):
        features = reversal(batch.domain_features, training=training)
        logits = ops.concatenate([batch.logits["source"], batch.logits["target"]])
        # No gradient, as in the authors' code: the discriminator trains the features alone.
        predictions = ops.stop_gradient(ops.softmax(logits))  # (2 batch, classes)
        # (2 batch, min(features * classes, max_units))
        products = self.multilinear_map([features, predictions])
        return upcast_half(self.domain_head(products, training=training))

    def method_losses(self, batch, reversal, training):
        scores = self.domain_scores(batch, reversal, training)
        weights = None
        if self.entropy_conditioning:
            # Each domain is normalized by its own mean, so both domains count equally.
            domains = batch.logits["source"], batch.logits["target"]
            weights = ops.concatenate([certainty_weights(logits) for logits in domains])
        return batch.domain_terms(scores, self.domain_label_smoothing, weights)
