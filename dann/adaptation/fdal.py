from typing import Any

from keras import ops

from dann.adaptation.adversarial_model import METHODS, AdversarialModel
from dann.adaptation.batch import predicted
from dann.adaptation.f_divergences import DIVERGENCES
from dann.adaptation.networks import second_label_head
from dann.checks import check_choice


@METHODS.register("fdal")
class FDAL(AdversarialModel):
    """f-domain-adversarial learning.

    A critic has one output for each class and uses that of the predicted class. It learns to
    estimate an f-divergence between the domains. Through a gradient reversal the backbone learns
    features for which the divergence is small.

    With features `f`, label head `c`, critic `h`, `k = argmax c(f(x))`, `g` and `phi*` the
    activation and the conjugate of the divergence (see `DIVERGENCES`) and `CE` the
    cross-entropy from logits, one step descends

    - for `c`: `mean_s CE(c(f(x_s)), y_s)`
    - for `h`: `-d`, where `d = mean_s g(h_k(f(x_s))) - mean_t phi*(g(h_k(f(x_t))))`
    - for `f`: `mean_s CE(c(f(x_s)), y_s) + strength * d`

    In training the logs also hold `divergence/loss`, which is `-d`.

    Args:
        strength: As in `AdversarialModel`, but defaults to `0.05`, as in the script.
        critic: Functional model with the label head's shapes. Defaults to a new one with its
            layers.
        divergence: `"pearson"` (default), `"jensen_shannon"`, `"kl"`, `"neyman"`, `"reverse_kl"`,
            `"squared_hellinger"` or `"total_variation"`. `"kl"`, `"neyman"`, `"reverse_kl"` and
            `"squared_hellinger"` grow exponentially with the critic's output, so they need a small
            learning rate.

    The other arguments are those of `AdversarialModel`.

    Example:

    >>> import dann
    >>> model = dann.FDAL(dann.networks.mlp_backbone((2,)), num_classes=3)
    >>> model.critic.name, model.divergence
    ('critic', 'pearson')

    Reference:
        - [Acuna et al., 2021](https://arxiv.org/abs/2106.11344), definition 2 (the discrepancy that
          `d` estimates) and section 4 (the critic by class, the objective).
    """

    terms = ("divergence/loss",)
    arguments = ("critic", "divergence")
    needs_target_logits = True
    needs_classes = True

    def __init__(
        self,
        *args,
        strength: Any = 0.05,
        critic: Any = None,
        divergence: str = "pearson",
        **kwargs,
    ):
        super().__init__(*args, strength=strength, **kwargs)
        self.divergence = check_choice("divergence", divergence, sorted(DIVERGENCES))
        self.critic = second_label_head("critic", critic, self)

    def method_losses(self, batch, labels, reversal, training):
        divergence = DIVERGENCES[self.divergence]
        scores = batch.behind_reversal(self.critic, reversal, training)
        source, target = (
            ops.sum(predicted(batch.logits[name]) * part, axis=-1)
            for name, part in zip(("source", "target"), batch.split_domains(scores), strict=True)
        )
        shown = ops.mean(divergence.activation(source))
        return {"divergence/loss": ops.mean(divergence.conjugate(target)) - shown}
