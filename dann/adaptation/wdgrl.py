from typing import Any, Unpack

import keras
from keras import ops

from dann.adaptation.adversarial_model import METHODS, AdversarialModel
from dann.adaptation.batch import count_examples
from dann.adaptation.networks import make_domain_head
from dann.adaptation.options import DEFAULT_STRENGTH, ReversalOptions
from dann.adaptation.preserve_state import preserve_state
from dann.autodiff import gradients
from dann.checks import check_integer, check_number
from dann.schedules import StrengthSchedule


@METHODS.register("wdgrl")
class WDGRL(AdversarialModel):
    """Wasserstein distance guided representation learning.

    A critic estimates the Wasserstein distance between the features of the domains, and the
    backbone learns features with a small distance.

    With features `f`, label head `c`, critic `d` and the penalty points `h`, which are all features
    and one random interpolation between each `f(x_s)` and an `f(x_t)`,

    - `W = mean_s d(f(x_s)) - mean_t d(f(x_t))`
    - `P = mean_h (||dd(h)/dh|| - 1)^2`, the norm over the features, `h` a constant

    each step minimizes

    - for `d`: `-W + gradient_penalty * P`
    - for `f` and `c`, on every `critic_steps`-th step: `mean_s CE(c(f(x_s)), y_s) + strength * W`

    The paper takes `critic_steps` steps of the critic on one batch and then one step of the other
    networks. Here every step has a new batch, and the backbone and the label head receive a nonzero
    gradient only on every `critic_steps`-th step, so a run needs `critic_steps` times as many
    steps. On the other steps, the optimizer applies a gradient of 0 to them; momentum, the averages
    of Adam and weight decay still change the weights. A loss that runs `classifier`, such as
    `VirtualAdversarial`, trains on every step.

    In training the logs also contain `critic/loss`, `critic/distance` (`W`) and `critic/penalty`.

    Args:
        backbone: Network from inputs to features; see `AdversarialModel`.
        num_classes: Number of classes. Required without a `label_head`.
        label_head: Network from features to logits; see `AdversarialModel`.
        strength: Strength of the gradient reversal; see `DANN`. Defaults to `0.1`.
        domain_head: The critic, a functional model from features to one number, higher for the
            source. Defaults to `dann.networks.domain_head`.
        gradient_penalty: Factor of the penalty, at least 0. Defaults to `10.0`.
        critic_steps: Steps of the critic per step of the other networks, at least 1. Defaults to
            `5`.
        seed: Seed of the interpolation. Defaults to a random seed.
        **options: The other options of `AdversarialModel`.

    Example:

    >>> import dann
    >>> model = dann.WDGRL(dann.networks.mlp_backbone((2,)), num_classes=3, critic_steps=2)
    >>> model.compile("sgd", metrics=["accuracy"])

    Reference:
        - [Shen et al., 2018](https://arxiv.org/abs/1707.01217), algorithm 1; equation 9 is
          the whole objective.
    """

    terms = ("critic/loss", "critic/distance", "critic/penalty")
    arguments = ("domain_head", "gradient_penalty", "critic_steps", "seed")

    def __init__(
        self,
        backbone: Any,
        num_classes: int | None = None,
        label_head: Any = None,
        *,
        strength: float | StrengthSchedule = DEFAULT_STRENGTH,
        domain_head: Any = None,
        gradient_penalty: float = 10.0,
        critic_steps: int = 5,
        seed: int | None = None,
        **options: Unpack[ReversalOptions],
    ):
        super().__init__(backbone, num_classes, label_head, strength=strength, **options)
        self.gradient_penalty = check_number("gradient_penalty", gradient_penalty, low=0)
        self.critic_steps = check_integer("critic_steps", critic_steps, low=1)
        self.seed = seed
        self.generator = keras.random.SeedGenerator(seed)
        self.domain_head = make_domain_head(domain_head, self.feature_shape, name="critic")

    def make_batch(self, inputs, features, training):
        batch = super().make_batch(
            inputs, self._stop_gradient_between_updates(features, training), training
        )
        return batch._replace(logits=self._stop_gradient_between_updates(batch.logits, training))

    def _stop_gradient_between_updates(self, tensors, training):
        """Stops the gradient except on every `critic_steps`-th training step."""
        if not training or self.critic_steps == 1:
            return tensors
        # The reversal counts the steps and has not counted this step yet.
        is_critic_step = (self.reversal.step + 1) % self.critic_steps != 0
        return {
            name: ops.where(is_critic_step, ops.stop_gradient(tensor), tensor)
            for name, tensor in tensors.items()
        }

    def method_losses(self, batch, reversal, training):
        scores = batch.apply_reversed(self.domain_head, reversal, training)
        source, target = batch.split_domains(scores)
        distance = ops.mean(source) - ops.mean(target)
        penalty = self._penalize(batch.features["source"], batch.features["target"], training)
        loss = self.gradient_penalty * penalty - distance
        return {"critic/loss": loss, "critic/distance": distance, "critic/penalty": penalty}

    def _penalize(self, source, target, training):
        source, target = ops.stop_gradient(source), ops.stop_gradient(target)
        random = keras.random.uniform((count_examples(source), 1), seed=self.generator)
        alpha = ops.cast(random, source.dtype)  # (batch, 1)
        # If the target has fewer examples than the source, target examples repeat.
        target_rows = ops.arange(count_examples(source)) % count_examples(target)
        interpolations = source + alpha * (ops.take(target, target_rows, axis=0) - source)
        points = ops.concatenate([source, target, interpolations])  # (3 batch, features)

        def critic_sum(points):
            with preserve_state(self.domain_head):
                return ops.sum(self.domain_head(points, training=training))

        (point_gradients,) = gradients(critic_sum, [points])
        squares = ops.sum(ops.square(ops.cast(point_gradients, "float32")), axis=-1)
        # Without 1e-12, the derivative of the root would be NaN at 0, as for a constant critic.
        return ops.mean(ops.square(ops.sqrt(squares + 1e-12) - 1))
