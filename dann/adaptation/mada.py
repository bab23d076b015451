import keras
from keras import ops

from dann.adaptation.dann import DANN, joint_predictions
from dann.adaptation.methods import METHODS
from dann.adaptation.model_parts import copy_of


@METHODS.register(
    "mada",
    summary="a discriminator for each class",
    when="few classes that each have their shift",
)
@keras.saving.register_keras_serializable("dann")
class MADA(DANN):
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

    takes_maps = False
    classifies_target = True
    of_classes = True

    def set_domain_head(self, head):
        super().set_domain_head(head)
        copies = [copy_of(head) for _ in range(1, self.num_classes)]
        self.domain_heads = [head, *copies]

    def discriminate(self, features, logits, training):
        shares = ops.cast(joint_predictions(logits), features.dtype)
        scores = [
            head(shares[:, k : k + 1] * features, training=training)
            for k, head in enumerate(self.domain_heads)
        ]
        return ops.concatenate(scores, axis=1)  # (batch, classes)

    def adversarial_losses(self, x, y, forward):
        domain, logits = self.domains_and_logits(forward)
        # The loss of Keras is the mean over the classes.
        return {"domain/loss": self.num_classes * self.domain_loss(domain, logits)}

    def logged(self, x, y, forward):
        domain, logits = self.domains_and_logits(forward)
        shares = joint_predictions(forward.logits)
        columns = ops.reshape(domain, (-1, 1)), ops.reshape(logits, (-1, 1))
        return {"domain/accuracy": (*columns, ops.reshape(shares, (-1,)))}
