from typing import Any, Unpack

from dann.adaptation.adversarial_model import METHODS, AdversarialModel
from dann.adaptation.batch import DOMAIN_TERMS, check_smoothing
from dann.adaptation.networks import make_domain_head
from dann.adaptation.options import DEFAULT_STRENGTH, ReversalOptions
from dann.schedules import StrengthSchedule


@METHODS.register("dann")
@METHODS.register("els", arguments={"domain_label_smoothing": 0.1})
class DANN(AdversarialModel):
    """Domain-adversarial neural network.

    A discriminator learns to distinguish the domains by their features. Through a gradient
    reversal, the backbone learns features that do not distinguish the domains.

    With features `f`, label head `c`, discriminator `d`, domain label 0 for source and 1 for target
    and `CE`, `BCE` the cross-entropies from logits, each step minimizes

    - for `c`: `mean_s CE(c(f(x_s)), y_s)`
    - for `d`: `D = mean over both domains of BCE(d(f(x)), domain)`
    - for `f`: `mean_s CE(c(f(x_s)), y_s) - strength * D`

    The paper adds the means of the two domains (equation 9). Here, as in the released code of the
    paper, `D` is the mean over all examples, which is half of this sum for batches of equal size.
    The strength scales only the gradient of the features, not the gradient of the discriminator.

    With `domain_label_smoothing` `e` the discriminator learns the labels `e` for source and `1 - e`
    for target, which keeps it from becoming overconfident (environment label smoothing, ELS).

    Features may be maps `(batch, ..., num_features)`, of images or series. The domain head then
    returns logits `(batch, ..., 1)`, one per position, or `(batch, 1)` if it pools. `D` is the mean
    over all logits.

    In training the logs also contain `domain/loss` and `domain/accuracy`.

    Args:
        backbone: Network from inputs to features, which may be maps; see `AdversarialModel`.
        num_classes: Number of classes. Required without a `label_head`.
        label_head: Network from features to logits; see `AdversarialModel`.
        strength: Strength of the gradient reversal: a number of at least 0 or a schedule of
            `dann.schedules`. Defaults to `0.1`, because the paper's 1, the default of
            `GradientReversal` and `GaninSchedule`, harms accuracy more often. The defaults of other
            methods differ, as do the scales of their losses and the strengths in their papers.
        domain_head: A Keras model or layer from features to one logit, above 0 for the target, or a
            function from the number of features to such a head. Defaults to
            `dann.networks.domain_head`, which scores each position of maps separately.
        domain_label_smoothing: Probability that the domain labels assign to the wrong domain, from
            0 to 0.5; 0.1 is usual. Defaults to `0.0`.
        **options: The other options of `AdversarialModel`.

    Raises:
        ValueError: If the domain head does not fit the features, or a number is out of range.

    Example:

    >>> import dann
    >>> model = dann.DANN(dann.networks.mlp_backbone((2,)), num_classes=3)
    >>> model.compile("sgd", metrics=["accuracy"])
    >>> model.classifier.output_shape
    (None, 3)

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), equations 9 to 18.
        - [Zhang et al., 2023](https://arxiv.org/abs/2302.00194), equation 3, for ELS, where gamma
          is `1 - e`.
    """

    terms = DOMAIN_TERMS
    arguments = ("domain_head", "domain_label_smoothing")
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
        **options: Unpack[ReversalOptions],
    ):
        super().__init__(backbone, num_classes, label_head, strength=strength, **options)
        self.domain_head = make_domain_head(domain_head, self.feature_shape)
        self.domain_label_smoothing = check_smoothing(domain_label_smoothing)

    def domain_scores(self, batch, reversal, training):
        return batch.apply_reversed(self.domain_head, reversal, training)

    def method_losses(self, batch, reversal, training):
        scores = self.domain_scores(batch, reversal, training)
        return batch.domain_terms(scores, self.domain_label_smoothing)
