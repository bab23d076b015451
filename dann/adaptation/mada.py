from typing import Any, Unpack

from keras import ops

from dann.adaptation.adversarial_model import METHODS, AdversarialModel
from dann.adaptation.batch import DOMAIN_TERMS, check_smoothing, upcast_half
from dann.adaptation.networks import copy_network, make_domain_head
from dann.adaptation.options import MethodOptions


@METHODS.register("mada")
class MADA(AdversarialModel):
    """Multi-adversarial domain adaptation.

    DANN with one discriminator per class. The input of each discriminator is the features times the
    predicted probability of its class, so that the domains are aligned class by class.

    With features `f`, label head `c`, predictions `g = softmax(c(f))`, discriminators `d_k`, domain
    label 0 for source and 1 for target and `CE`, `BCE` the cross-entropies from logits, one step
    descends

    - for `c`: `mean_s CE(c(f(x_s)), y_s)`
    - for `d_k`: `D_k = mean over both domains of BCE(d_k(g_k(x) * f(x)), domain)`
    - for `f`: `mean_s CE(c(f(x_s)), y_s) - strength * sum_k D_k`

    The predictions receive no gradient from any `D_k`.

    In training the logs also contain `domain/loss`, the sum of the `D_k`, and `domain/accuracy`, in
    which each discriminator is weighted by the predicted probability of its class.

    Args:
        backbone: As in `AdversarialModel`.
        num_classes: As in `AdversarialModel`.
        label_head: As in `AdversarialModel`.
        domain_head: As in `DANN`: the discriminator of the first class. The discriminators of the
            other classes are copies with new weights.
        domain_label_smoothing: As in `DANN`. Defaults to `0.0`.
        **options: Options of `AdversarialModel`.

    Example:

    >>> import dann
    >>> model = dann.MADA(dann.networks.mlp_backbone((2,)), num_classes=3)
    >>> len(model.domain_heads)
    3

    Reference:
        - [Pei et al., 2018](https://arxiv.org/abs/1809.02176), equation 3 (`sum_k D_k`) and
          equation 4 (the objective of `f`).
    """

    terms = DOMAIN_TERMS
    arguments = ("domain_head", "domain_label_smoothing")
    needs_target_logits = True
    needs_classes = True

    def __init__(
        self,
        backbone: Any,
        num_classes: int | None = None,
        label_head: Any = None,
        *,
        domain_head: Any = None,
        domain_label_smoothing: float = 0.0,
        **options: Unpack[MethodOptions],
    ):
        super().__init__(backbone, num_classes, label_head, **options)
        self.domain_head = make_domain_head(domain_head, self.feature_shape)
        copies = [copy_network(self.domain_head) for _ in range(1, self.num_classes)]
        self.domain_heads = [self.domain_head, *copies]
        self.domain_label_smoothing = check_smoothing(domain_label_smoothing)

    def domain_scores(self, batch, reversal, training):
        features = reversal(batch.domain_features, training=training)
        probabilities = ops.cast(batch.probabilities(), features.dtype)
        scores = [
            head(probabilities[:, k : k + 1] * features, training=training)
            for k, head in enumerate(self.domain_heads)
        ]
        return upcast_half(ops.concatenate(scores, axis=1))  # (2 batch, classes)

    def method_losses(self, batch, reversal, training):
        scores = self.domain_scores(batch, reversal, training)
        terms = batch.domain_terms(scores, self.domain_label_smoothing)
        source, target = batch.split_domains(scores)
        is_correct = ops.concatenate([source <= 0, target > 0])
        probabilities = batch.probabilities()  # (2 batch, classes), each row sums to 1
        accuracies = ops.sum(probabilities * ops.cast(is_correct, probabilities.dtype), axis=1)
        return {
            # `domain_terms` returns the mean over the classes; equation 3 is their sum.
            "domain/loss": self.num_classes * terms["domain/loss"],
            "domain/accuracy": ops.mean(accuracies),
        }
