from typing import Any, NamedTuple

import keras
from keras import ops

from dann.adaptation.adversarial_model import AdversarialModel
from dann.adaptation.forward_pass import through_reversal
from dann.adaptation.methods import METHODS
from dann.adaptation.model_parts import fitting_domain_head
from dann.adaptation.smooth_task import frozen
from dann.autodiff import gradients
from dann.checks import check_integer, check_number
from dann.layers.noise import Noise


class CriticScores(NamedTuple):
    """The critic's output for each example of a domain `(batch, 1)`, and `P`, a scalar."""

    source: Any
    target: Any
    penalty: Any


@METHODS.register(
    "wdgrl",
    summary="a critic of the Wasserstein distance",
    when="domains that do not overlap",
)
@keras.saving.register_keras_serializable("dann")
class WDGRL(AdversarialModel):
    """Wasserstein distance guided representation learning.

    A critic estimates how far apart the domains' features are; the backbone brings them closer.

    With features `f`, label head `c`, critic `d` and the points `h`, which are all `f(x_s)`, all
    `f(x_t)` and a random point on the line from each `f(x_s)` to an `f(x_t)`,

    - `W = mean_s d(f(x_s)) - mean_t d(f(x_t))`
    - `P = mean_h (||dd(h)/dh|| - 1)^2`, the norm over the features, `h` a constant

    one step descends

    - for `d`: `-W + gradient_penalty * P`
    - for `f` and `c`, on every `critic_steps`-th step: `mean_s CE(c(f(x_s)), y_s) + strength * W`

    The paper takes `critic_steps` steps of the critic on one batch and then one step of the rest.
    Here every step has a new batch, and only on every `critic_steps`-th step do the backbone and
    the label head get a gradient other than 0. So they learn from fewer batches, and a run needs
    `critic_steps` times the steps. On the other steps the optimizer does what it does with a
    gradient of 0: momentum and Adam move on by what they have gathered, weight decay continues. A
    loss that runs `classifier` itself, such as `VirtualAdversarial`, trains on every step.

    In training the logs also hold `critic/loss`, `critic/distance` (`W`) and `critic/penalty`.

    Args:
        domain_head: The critic: functional model from features to one number, higher for the
            source. Defaults to `dann.networks.domain_head`.
        gradient_penalty: Factor of the penalty, at least 0. Defaults to `10.0`.
        critic_steps: Steps of the critic for one of the rest, at least 1. Defaults to `5`.
        seed: Seed of the points between the domains. Defaults to a random one.

    The other arguments are those of `AdversarialModel`.

    Example:

    >>> import dann
    >>> model = dann.WDGRL(dann.networks.mlp_backbone((2,)), num_classes=3, critic_steps=2)
    >>> model.compile("sgd", metrics=["accuracy"])

    Reference:
        - [Shen et al., 2018](https://arxiv.org/abs/1707.01217), algorithm 1; equation 9 is
          the whole objective.
    """

    def __init__(
        self,
        backbone,
        num_classes=None,
        label_head=None,
        domain_head=None,
        strength=1.0,
        way="override",
        passes="joint",
        gradient_penalty=10.0,
        critic_steps=5,
        seed=None,
        **kwargs,
    ):
        super().__init__(backbone, num_classes, label_head, strength, way, passes, **kwargs)
        self.gradient_penalty = check_number("gradient_penalty", gradient_penalty, low=0)
        self.critic_steps = check_integer("critic_steps", critic_steps, low=1)
        self.seed = seed
        self.noise = Noise(seed, name="line_noise")
        self.domain_head = domain_head
        self.when_known(self._fit_critic)
        self.track("critic/loss", "critic/distance", "critic/penalty")

    def _fit_critic(self):
        self.domain_head = fitting_domain_head(self.domain_head, self.feature_shape, name="critic")

    def extract(self, inputs, training):
        return self._gated(super().extract(inputs, training), training)

    def classify(self, features, training):
        return self._gated(super().classify(features, training), training)

    def _gated(self, tensors, training):
        """Lets the gradient through on every `critic_steps`-th training step only."""
        if not training or self.critic_steps == 1:
            return tensors
        # The reversal counts the steps; it has not counted this one yet.
        closed = (self.reversal.step + 1) % self.critic_steps != 0
        return {
            name: ops.where(closed, ops.stop_gradient(tensor), tensor)
            for name, tensor in tensors.items()
        }

    def adversary(self, features, logits, training, reversal):
        scores = through_reversal(reversal, self.domain_head, features, training)
        penalty = self._penalty(features["source"], features["target"], training)
        return CriticScores(*scores, penalty)

    def _penalty(self, source, target, training):
        source, target = ops.stop_gradient(source), ops.stop_gradient(target)
        share = ops.cast(self.noise.uniform((ops.shape(source)[0], 1)), source.dtype)
        # If the target has fewer examples than the source, they repeat.
        partners = ops.arange(ops.shape(source)[0]) % ops.shape(target)[0]
        line = source + share * (ops.take(target, partners, axis=0) - source)
        points = ops.concatenate([source, target, line])

        def total(points):
            with frozen(self.domain_head):
                return ops.sum(self.domain_head(points, training=training))

        (slopes,) = gradients(total, [points])
        squares = ops.sum(ops.square(ops.cast(slopes, "float32")), axis=-1)
        # The derivative of the root at 0, where a dead critic is, would be NaN.
        return ops.mean(ops.square(ops.sqrt(squares + 1e-12) - 1))

    def adversarial_losses(self, x, y, forward):
        penalty = self.gradient_penalty * forward.adversary.penalty
        return {"critic/loss": penalty - _distance(forward.adversary)}

    def logged(self, x, y, forward):
        critic = forward.adversary
        return {"critic/distance": (_distance(critic),), "critic/penalty": (critic.penalty,)}

    def get_config(self):
        return {
            **super().get_config(),
            "domain_head": keras.saving.serialize_keras_object(self.domain_head),
            "gradient_penalty": self.gradient_penalty,
            "critic_steps": self.critic_steps,
            "seed": self.seed,
        }


def _distance(critic):
    """`W`, a scalar."""
    return ops.mean(critic.source) - ops.mean(critic.target)
