from typing import Any

import keras
from keras import ops

from dann.adaptation.adversarial_model import AdversarialModel
from dann.adaptation.divergences import DIVERGENCES
from dann.adaptation.forward_pass import ForwardPass
from dann.adaptation.second_head import second_head


@keras.saving.register_keras_serializable("dann")
class FDAL(AdversarialModel):
    """f-domain-adversarial learning.

    A critic with one output a class, of which it shows that of the predicted class, learns to
    estimate an f-divergence between the domains; through a gradient reversal the backbone learns
    features between which it is small.

    With features `f`, label head `c`, critic `h`, `k = argmax c(f(x))`, `g` and `phi*` the
    activation and the conjugate of the divergence (see `dann.adaptation.divergences`) and `CE` the
    cross-entropy from logits, one step descends

    - for `c`: `mean_s CE(c(f(x_s)), y_s)`
    - for `h`: `-d`, where `d = mean_s g(h_k(f(x_s))) - mean_t phi*(g(h_k(f(x_t))))`
    - for `f`: `mean_s CE(c(f(x_s)), y_s) + strength * d`

    In training the logs also hold `divergence/loss`, which is `-d`.

    Args:
        backbone: Functional model from inputs to features `(batch, num_features)`.
        num_classes: Number of classes. Needed where `label_head` is not given.
        label_head: Functional model from features to logits. Defaults to
            `dann.networks.label_head`.
        strength: Strength of the reversal: a number of at least 0, or a schedule of
            `dann.schedules`. Defaults to `1.0`.
        way: How the reversal is built; see `dann.layers.GradientReversal`.
        passes: `"joint"` (default) or `"separate"`; see `AdversarialModel`.
        critic: Functional model like the label head. Defaults to a new one of its layers.
        divergence: `"pearson"` (default), `"jensen_shannon"`, `"kl"`, `"neyman"`, `"reverse_kl"`,
            `"squared_hellinger"` or `"total_variation"`. Those of `"kl"`, `"neyman"`,
            `"reverse_kl"` and `"squared_hellinger"` grow exponentially with the critic's output;
            they want a small learning rate.
        augmentation: Layers by domain; see `AdversarialModel`.
        regularizers: Losses that join; see `AdversarialModel`.

    Raises:
        ValueError: If the parts do not fit each other, `divergence` is unknown, or an argument is
            out of range.

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
        if divergence not in DIVERGENCES:
            raise ValueError(
                f"Argument `divergence` must be one of {sorted(DIVERGENCES)}. "
                f"Received: {divergence!r}"
            )
        self.divergence = divergence
        self.critic = second_head(critic, self.label_head, "critic")
        self.track("divergence/loss")

    def adversary(self, features, logits, training):
        return self.through_reversal(self.critic, features, training)

    def adversarial_losses(self, x, y, forward):
        divergence = DIVERGENCES[self.divergence]
        source = ops.mean(divergence.activation(self.shown("source", forward)))
        target = ops.mean(divergence.conjugate(self.shown("target", forward)))
        return {"divergence/loss": target - source}

    def shown(self, domain: str, forward: ForwardPass) -> Any:
        """Returns the critic's output for the predicted class of each example `(batch,)`."""
        scores = getattr(forward.adversary, domain)
        classes = ops.argmax(forward.logits[domain], axis=-1)
        return ops.sum(ops.one_hot(classes, self.num_classes, dtype=scores.dtype) * scores, axis=-1)

    def get_config(self):
        return {
            **super().get_config(),
            "critic": keras.saving.serialize_keras_object(self.critic),
            "divergence": self.divergence,
        }
