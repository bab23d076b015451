import dataclasses
import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from dann.adaptation.adversarial_model import AdversarialModel
from dann.adaptation.fitting import second_head
from dann.adaptation.forward_pass import ForwardPass
from dann.adaptation.methods import METHODS
from dann.checks import check_choice


@dataclasses.dataclass(frozen=True)
class Divergence:
    """What a critic, whose output is any number, needs to estimate an f-divergence.

    For distributions `S` and `T` with densities `s`, `t` and a convex function `phi` with
    `phi(1) = 0`, whose conjugate is `phi*(v) = sup_u (u v - phi(u))`,

    - `D(S || T) = E_T[phi(s / t)] >= E_S[g(v(x))] - E_T[phi*(g(v(x)))]` for every critic `v`

    Args:
        activation: `g`, which maps any number into the domain of the conjugate.
        conjugate: `v -> phi*(g(v))`, simplified so that rounding errors stay small.

    Reference:
        - [Nowozin et al., 2016](https://arxiv.org/abs/1606.00709), table 2 and its continuation in
          the appendix.
    """

    activation: Callable[[Any], Any]
    conjugate: Callable[[Any], Any]


# `u` is the ratio of the densities. Pearson's `phi` counts as defined for negative `u` too, as in
# the paper's table.
DIVERGENCES = {
    # phi = u log u;  g = v;  phi*(t) = exp(t - 1)
    "kl": Divergence(lambda v: v, lambda v: ops.exp(v - 1)),
    # phi = -log u;  g = -exp(-v);  phi*(t) = -1 - log(-t)
    "reverse_kl": Divergence(lambda v: -ops.exp(-v), lambda v: v - 1),
    # phi = (u - 1)^2;  g = v;  phi*(t) = t^2 / 4 + t
    "pearson": Divergence(lambda v: v, lambda v: ops.square(v) / 4 + v),
    # phi = (1 - u)^2 / u;  g = 1 - exp(-v);  phi*(t) = 2 - 2 sqrt(1 - t)
    "neyman": Divergence(lambda v: 1 - ops.exp(-v), lambda v: 2 - 2 * ops.exp(-v / 2)),
    # phi = (sqrt(u) - 1)^2;  g = 1 - exp(-v);  phi*(t) = t / (1 - t)
    "squared_hellinger": Divergence(lambda v: 1 - ops.exp(-v), lambda v: ops.exp(v) - 1),
    # phi = u log u - (u + 1) log((u + 1) / 2);  g = log 2 - log(1 + exp(-v));
    # phi*(t) = -log(2 - exp(t))
    "jensen_shannon": Divergence(
        lambda v: math.log(2) - ops.softplus(-v), lambda v: ops.softplus(v) - math.log(2)
    ),
    # phi = |u - 1| / 2;  g = tanh(v) / 2;  phi*(t) = t for |t| <= 1 / 2
    "total_variation": Divergence(lambda v: ops.tanh(v) / 2, lambda v: ops.tanh(v) / 2),
}


@METHODS.register(
    "fdal",
    summary="a critic of the classes under an f-divergence",
    when="to choose the divergence",
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
