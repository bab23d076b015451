from typing import Any

from keras import ops

from dann.adaptation.adversarial_model import METHODS, AdversarialModel
from dann.adaptation.batch import DOMAIN_TERMS, at_least_single, check_smoothing
from dann.adaptation.networks import copy_network, fitting_domain_head


@METHODS.register("mada")
class MADA(AdversarialModel):
    """Multi-adversarial domain adaptation.

    DANN with one discriminator for each class. Each sees the features times the predicted
    probability of its class, so that the domains are aligned class by class.

    With features `f`, label head `c`, predictions `g = softmax(c(f))`, discriminators `d_k`, domain
    label 0 for source and 1 for target and `CE`, `BCE` the cross-entropies from logits, one step
    descends

    - for `c`: `mean_s CE(c(f(x_s)), y_s)`
    - for `d_k`: `D_k = mean over both domains of BCE(d_k(g_k(x) * f(x)), domain)`
    - for `f`: `mean_s CE(c(f(x_s)), y_s) - strength * sum_k D_k`

    The predictions get no gradient from any `D_k`.

    In training the logs also hold `domain/loss`, the sum, and `domain/accuracy`, in which the
    predicted probability of its class weighs each discriminator.

    Args:
        domain_head: As in `DANN`: the discriminator of the first class. Those of the other classes
            are copies with weights of their own.

    The other arguments are those of `DANN`.

    Example:

    >>> import dann
    >>> model = dann.MADA(dann.networks.mlp_backbone((2,)), num_classes=3)
    >>> len(model.domain_heads)
    3

    Reference:
        - [Pei et al., 2018](https://arxiv.org/abs/1809.02176), equations 3 (`sum_k D_k`)
          and 4 (what `f` descends).
    """

    terms = DOMAIN_TERMS
    arguments = ("domain_head", "domain_label_smoothing")
    needs_target_logits = True
    needs_classes = True

    def __init__(
        self, *args, domain_head: Any = None, domain_label_smoothing: float = 0.0, **kwargs
    ):
        super().__init__(*args, **kwargs)
        self.domain_head = fitting_domain_head(domain_head, self.feature_shape)
        copies = [copy_network(self.domain_head) for _ in range(1, self.num_classes)]
        self.domain_heads = [self.domain_head, *copies]
        self.domain_label_smoothing = check_smoothing(domain_label_smoothing)

    def domain_scores(self, batch, reversal, training):
        features = reversal(batch.domain_features, training=training)
        shares = ops.cast(batch.probabilities(), features.dtype)
        scores = [
            head(shares[:, k : k + 1] * features, training=training)
            for k, head in enumerate(self.domain_heads)
        ]
        return at_least_single(ops.concatenate(scores, axis=1))  # (2 batch, classes)

    def method_losses(self, batch, labels, reversal, training):
        scores = self.domain_scores(batch, reversal, training)
        terms = batch.domain_terms(scores, self.domain_label_smoothing)
        source, target = batch.split_domains(scores)
        right = ops.concatenate([source <= 0, target > 0])
        shares = batch.probabilities()  # whose sum is 1
        weighed = ops.sum(shares * ops.cast(right, shares.dtype), axis=1)
        # The shared loss is the mean over the classes.
        return {
            "domain/loss": self.num_classes * terms["domain/loss"],
            "domain/accuracy": ops.mean(weighed),
        }
