from typing import Any

from dann.adaptation.adversarial_model import METHODS, AdversarialModel
from dann.adaptation.batch import DOMAIN_TERMS, check_smoothing
from dann.adaptation.networks import fitting_domain_head


@METHODS.register("dann")
@METHODS.register("els", arguments={"domain_label_smoothing": 0.1})
class DANN(AdversarialModel):
    """Domain-adversarial neural network.

    A discriminator learns to tell the domains apart by their features. Through a gradient reversal
    the backbone learns features that do not tell them apart.

    With features `f`, label head `c`, discriminator `d`, domain label 0 for source and 1 for target
    and `CE`, `BCE` the cross-entropies from logits, one step descends

    - for `c`: `mean_s CE(c(f(x_s)), y_s)`
    - for `d`: `D = mean over both domains of BCE(d(f(x)), domain)`
    - for `f`: `mean_s CE(c(f(x_s)), y_s) - strength * D`

    The paper adds the two domains' means (equation 9). Here, as in its released code, `D` is the
    mean over all examples, which is half of that sum if the batches are equal. The strength scales
    only the gradient of the features; the discriminator always learns at full rate.

    With `domain_label_smoothing` `e` the discriminator learns the labels `e` for source and `1 - e`
    for target, which keeps it from becoming certain (environment label smoothing, ELS).

    Features may be maps `(batch, ..., num_features)`, of images or series. The domain head says how
    positions are judged: its logits are `(batch, ..., 1)`, one for each position by itself, or
    `(batch, 1)` if it pools. `D` is the mean over all logits.

    In training the logs also hold `domain/loss` and `domain/accuracy`.

    Args:
        domain_head: Any Keras model or layer from features to one logit, above 0 for the target.
            Defaults to `dann.networks.domain_head`, which judges each position of maps by itself.
        domain_label_smoothing: What the domain labels give to the wrong domain, from 0 (default)
            to .5, where they tell nothing; `.1` is usual.

    The other arguments, and the errors, are those of `AdversarialModel`.

    Example:

    >>> import dann
    >>> model = dann.DANN(dann.networks.mlp_backbone((2,)), num_classes=3)
    >>> model.compile("sgd", metrics=["accuracy"])
    >>> model.classifier.output_shape
    (None, 3)

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), equations 9 to 18.
        - [Zhang et al., 2023](https://arxiv.org/abs/2302.00194), equation 3, for ELS, whose gamma
          is `1 - e`.
    """

    terms = DOMAIN_TERMS
    arguments = ("domain_head", "domain_label_smoothing")
    supports_maps = True

    def __init__(
        self, *args, domain_head: Any = None, domain_label_smoothing: float = 0.0, **kwargs
    ):
        super().__init__(*args, **kwargs)
        self.domain_head = fitting_domain_head(domain_head, self.feature_shape)
        self.domain_label_smoothing = check_smoothing(domain_label_smoothing)

    def domain_scores(self, batch, reversal, training):
        return batch.behind_reversal(self.domain_head, reversal, training)

    def method_losses(self, batch, labels, reversal, training):
        scores = self.domain_scores(batch, reversal, training)
        return batch.domain_terms(scores, self.domain_label_smoothing)
