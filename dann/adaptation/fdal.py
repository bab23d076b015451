import math
from typing import Any, Unpack

from keras import ops

from dann.adaptation.adversarial_model import METHODS, AdversarialModel
from dann.adaptation.batch import predict_one_hot
from dann.adaptation.networks import make_second_head
from dann.adaptation.options import ReversalOptions
from dann.checks import check_choice
from dann.schedules import StrengthSchedule

# An f-divergence is defined by a convex function `phi` of the ratio `u` of two densities, with
# `phi(1) = 0`; its conjugate is `phi*(t) = sup_u (u t - phi(u))`. Each entry contains two functions
# of the output `v` of the critic: the activation `g(v)`, whose values are in the domain of `phi*`,
# and `phi*(g(v))`, simplified to reduce rounding errors. As in the table of the paper, Pearson's
# `phi` is also defined for negative `u`.
DIVERGENCES = {
    # phi = u log u;  g = v;  phi*(t) = exp(t - 1)
    "kl": (lambda v: v, lambda v: ops.exp(v - 1)),
    # phi = -log u;  g = -exp(-v);  phi*(t) = -1 - log(-t)
    "reverse_kl": (lambda v: -ops.exp(-v), lambda v: v - 1),
    # phi = (u - 1)^2;  g = v;  phi*(t) = t^2 / 4 + t
    "pearson": (lambda v: v, lambda v: ops.square(v) / 4 + v),
    # phi = (1 - u)^2 / u;  g = 1 - exp(-v);  phi*(t) = 2 - 2 sqrt(1 - t)
    "neyman": (lambda v: 1 - ops.exp(-v), lambda v: 2 - 2 * ops.exp(-v / 2)),
    # phi = (sqrt(u) - 1)^2;  g = 1 - exp(-v);  phi*(t) = t / (1 - t)
    "squared_hellinger": (lambda v: 1 - ops.exp(-v), lambda v: ops.exp(v) - 1),
    # phi = u log u - (u + 1) log((u + 1) / 2);  g = log 2 - log(1 + exp(-v));
    # phi*(t) = -log(2 - exp(t))
    "jensen_shannon": (
        lambda v: math.log(2) - ops.softplus(-v),
        lambda v: ops.softplus(v) - math.log(2),
    ),
    # phi = |u - 1| / 2;  g = tanh(v) / 2;  phi*(t) = t for |t| <= 1 / 2
    "total_variation": (lambda v: ops.tanh(v) / 2, lambda v: ops.tanh(v) / 2),
}


@METHODS.register("fdal")
class FDAL(AdversarialModel):
    """f-domain-adversarial learning.

    A critic with one output per class learns to estimate an f-divergence between the domains by its
    output for the predicted class. Through a gradient reversal, the backbone learns features with a
    small divergence.

    With features `f`, label head `c`, critic `a`, `k = argmax c(f(x))`, `g` and `phi*` the
    activation and the conjugate of the divergence (see `DIVERGENCES`) and `CE` the
    cross-entropy from logits, each step minimizes

    - for `c`: `mean_s CE(c(f(x_s)), y_s)`
    - for `a`: `D = mean_t phi*(g(a_k(f(x_t)))) - mean_s g(a_k(f(x_s)))`
    - for `f`: `mean_s CE(c(f(x_s)), y_s) - strength * D`

    In training the logs also contain `divergence/loss`, which is `D`.

    Args:
        backbone: Network from inputs to features; see `AdversarialModel`.
        num_classes: Number of classes. Required without a `label_head`.
        label_head: Network from features to logits; see `AdversarialModel`.
        strength: Strength of the gradient reversal; see `AdversarialModel`. Defaults to `0.05`, as
            in `scripts/train.py method=fdal`.
        critic: Functional model with the input and output shapes of the label head. Defaults to a
            new model with the layers of the label head.
        divergence: `"pearson"` (default), `"jensen_shannon"`, `"kl"`, `"neyman"`, `"reverse_kl"`,
            `"squared_hellinger"` or `"total_variation"`. `"kl"`, `"neyman"`, `"reverse_kl"` and
            `"squared_hellinger"` grow exponentially with the critic's output, so they require a
            small learning rate.
        **options: The other options of `AdversarialModel`.

    Raises:
        ValueError: If `divergence` is unknown, or the critic does not fit the label head.

    Example:

    >>> import dann
    >>> model = dann.FDAL(dann.networks.mlp_backbone((2,)), num_classes=3)
    >>> model.critic.name, model.divergence
    ('critic', 'pearson')

    Reference:
        - [Acuna et al., 2021](https://arxiv.org/abs/2106.11344), definition 2 (the discrepancy that
          `-D` estimates) and section 4 (the critic by class, the objective).
        - [Nowozin et al., 2016](https://arxiv.org/abs/1606.00709), table 2 and its continuation in
          the appendix: the divergences.
    """

    terms = ("divergence/loss",)
    arguments = ("critic", "divergence")
    needs_target_logits = True
    needs_classes = True

    def __init__(
        self,
        backbone: Any,
        num_classes: int | None = None,
        label_head: Any = None,
        *,
        strength: float | StrengthSchedule = 0.05,
        critic: Any = None,
        divergence: str = "pearson",
        **options: Unpack[ReversalOptions],
    ):
        super().__init__(backbone, num_classes, label_head, strength=strength, **options)
        self.divergence = check_choice("divergence", divergence, sorted(DIVERGENCES))
        self.critic = make_second_head("critic", critic, self)

    def method_losses(self, batch, reversal, training):
        activation, conjugate = DIVERGENCES[self.divergence]
        scores = batch.apply_reversed(self.critic, reversal, training)
        # a_k for the predicted class k: (batch,) for each domain
        source, target = (
            ops.sum(predict_one_hot(batch.logits[name]) * part, axis=-1)
            for name, part in zip(("source", "target"), batch.split_domains(scores), strict=True)
        )
        return {"divergence/loss": ops.mean(conjugate(target)) - ops.mean(activation(source))}
