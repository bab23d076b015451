from typing import Any

import keras
from keras import ops

from dann.adaptation.adversarial_model import AdversarialModel
from dann.adaptation.f_divergences import DIVERGENCES
from dann.adaptation.forward_pass import through_reversal
from dann.adaptation.methods import METHODS
from dann.adaptation.model_parts import second_head
from dann.checks import check_choice


@METHODS.register(
    "fdal",
    summary="a critic of the classes under an f-divergence",
    when="to choose the divergence",
    title="f-DAL",
)
@keras.saving.register_keras_serializable("dann")
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

    classifies_target = True
    of_classes = True

    def __init__(
        self,
        backbone,
        num_classes=None,
        label_head=None,
        strength=1.0,
        way="override",
        passes="joint",
        critic=None,
        divergence="pearson",
        **kwargs,
    ):
        super().__init__(backbone, num_classes, label_head, strength, way, passes, **kwargs)
        self.divergence = check_choice("divergence", divergence, sorted(DIVERGENCES))
        self.critic = critic
        self.when_known(self._fit_critic)
        self.track("divergence/loss")

    def _fit_critic(self):
        self.critic = second_head(self.critic, self.label_head, "critic")

    def adversary(self, features, logits, training, reversal):
        return through_reversal(reversal, self.critic, features, training)

    def adversarial_losses(self, x, y, forward):
        divergence = DIVERGENCES[self.divergence]
        source_scores, target_scores = forward.adversary
        source = self.of_predicted_class(source_scores, forward.logits["source"])
        target = self.of_predicted_class(target_scores, forward.logits["target"])
        shown = ops.mean(divergence.activation(source))
        return {"divergence/loss": ops.mean(divergence.conjugate(target)) - shown}

    def of_predicted_class(self, scores: Any, logits: Any) -> Any:
        """Returns the critic's score of the class that the label head predicts `(batch,)`."""
        classes = ops.argmax(logits, axis=-1)
        return ops.sum(ops.one_hot(classes, self.num_classes, dtype=scores.dtype) * scores, axis=-1)

    def get_config(self):
        return {
            **super().get_config(),
            "critic": keras.saving.serialize_keras_object(self.critic),
            "divergence": self.divergence,
        }
