from typing import Any

import keras
from keras import ops

from dann.adaptation.adversarial_model import AdversarialModel
from dann.adaptation.forward_pass import ForwardPass, through_reversal
from dann.adaptation.masks import joined, mask_of, mean, run
from dann.adaptation.methods import METHODS
from dann.adaptation.model_parts import fitting_domain_head
from dann.checks import check_number


@METHODS.register(
    "dann",
    summary="one discriminator on the features, reversed",
    when="first; few classes, alike in both domains",
)
@METHODS.register(
    "els",
    summary="DANN with smoothed domain labels",
    when="the discriminator wins at once",
    arguments={"domain_label_smoothing": 0.1},
)
@keras.saving.register_keras_serializable("dann")
class DANN(AdversarialModel):
    """Domain-adversarial neural network.

    A discriminator learns to tell the domains apart by their features. Through a gradient reversal
    the backbone learns features that do not tell them apart.

    With features `f`, label head `c`, discriminator `d`, domain label 0 for source and 1 for target
    and `CE`, `BCE` the cross-entropies from logits, one step descends

    - for `c`: `mean_s CE(c(f(x_s)), y_s)`
    - for `d`: `D = mean over both domains of BCE(d(f(x)), domain)`
    - for `f`: `mean_s CE(c(f(x_s)), y_s) - strength * D`

    The paper adds the two domains' means (equation 9). Here, as in its released code, `D` is the
    mean over all examples, which is half of that sum if the batches are equal. The strength scales
    only the gradient of the features; the discriminator always learns at full rate.

    With `domain_label_smoothing` `e` the discriminator learns the labels `e` for source and `1 - e`
    for target, which keeps it from becoming certain (environment label smoothing, ELS).

    Features may be maps `(batch, ..., num_features)`, of images or series. The domain head says how
    positions are judged: its logits are `(batch, ..., 1)`, one for each position by itself, or
    `(batch, 1)` if it pools. `D` is the mean over all logits; positions that a Keras mask leaves
    out count neither in `D` nor in the label loss.

    In training the logs also hold `domain/loss` and `domain/accuracy`.

    Args:
        domain_head: Any Keras model or layer from features to one logit, above 0 for the target.
            Defaults to `dann.networks.domain_head`, which judges each position of maps by itself.
        domain_label_smoothing: What the domain labels give to the wrong domain, from 0 (default)
            to .5, where they tell nothing; `.1` is usual.

    The other arguments, and the errors, are those of `AdversarialModel`.

    Example:

    >>> import dann
    >>> model = dann.DANN(dann.networks.mlp_backbone((2,)), num_classes=3)
    >>> model.compile("sgd", metrics=["accuracy"])
    >>> model.classifier.output_shape
    (None, 3)

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), equations 9 to 18.
        - [Zhang et al., 2023](https://arxiv.org/abs/2302.00194), equation 3, for ELS, whose gamma
          is `1 - e`.
    """

    takes_maps = True

    def __init__(
        self,
        backbone,
        num_classes=None,
        label_head=None,
        domain_head=None,
        strength=1.0,
        way="override",
        passes="joint",
        domain_label_smoothing=0.0,
        **kwargs,
    ):
        super().__init__(backbone, num_classes, label_head, strength, way, passes, **kwargs)
        self.domain_label_smoothing = check_number(
            "domain_label_smoothing", domain_label_smoothing, low=0, high=0.5
        )
        self.domain_head = domain_head
        self.when_known(self._fit_domain_head)
        self._cross_entropy = keras.losses.BinaryCrossentropy(from_logits=True, reduction="none")
        accuracy = keras.metrics.BinaryAccuracy(name="domain/accuracy", threshold=0.0)
        self.track("domain/loss")
        self.trackers["domain/accuracy"] = accuracy

    def _fit_domain_head(self):
        shape = self.domain_head_inputs()
        self.set_domain_head(fitting_domain_head(self.domain_head, shape))

    def set_domain_head(self, head: keras.Model) -> None:
        """Sets the discriminator; a method with several derives the others from it."""
        self.domain_head = head

    def domain_head_inputs(self) -> tuple[int | None, ...]:
        """Returns the shape of the domain head's input."""
        return self.feature_shape

    def adversary(self, features, logits, training, reversal):
        def discriminate(both, training):
            return self.discriminate(both, logits, training)

        return through_reversal(reversal, discriminate, features, training)

    def domain_scores(self, forward):
        return forward.adversary

    def discriminate(self, features: Any, logits: dict, training: bool) -> Any:
        """Returns the discriminator's logits of both domains, `(batch, k)` or maps of them.

        The features are the source's, then the target's, behind the reversal; the logits are those
        of the classes by domain.
        """
        return run(self.domain_head, features, training)

    def domain_weights(self, y: Any, forward: ForwardPass) -> Any:
        """Returns the weight of each example in the domain loss `(batch,)`, or `None` for 1."""
        return None

    def adversarial_losses(self, x, y, forward):
        domain, logits = self.domains_and_logits(forward)
        weights = self.domain_weights(y, forward)
        return {"domain/loss": self.domain_loss(domain, logits, weights)}

    def logged(self, x, y, forward):
        return {"domain/accuracy": self.domains_and_logits(forward)}

    def domains_and_logits(self, forward: ForwardPass) -> tuple[Any, Any]:
        """Returns domain labels and the discriminator's logits, source first, of one shape."""
        source, target = self.domain_scores(forward)
        domain = ops.concatenate([ops.zeros_like(source), ops.ones_like(target)])
        return domain, joined(source, target)

    def domain_loss(self, domain: Any, logits: Any, weights: Any = None) -> Any:
        """Returns the mean cross-entropy of the discriminator with smoothed labels, a scalar."""
        losses = self._cross_entropy(self.smoothed(domain), logits, weights)
        return mean(losses, mask_of(logits))

    def smoothed(self, domain: Any) -> Any:
        """Returns the domain labels that the discriminator learns."""
        smoothing = self.domain_label_smoothing
        return ops.cast(domain, "float32") * (1 - 2 * smoothing) + smoothing

    def get_config(self):
        return {
            **super().get_config(),
            "domain_head": keras.saving.serialize_keras_object(self.domain_head),
            "domain_label_smoothing": self.domain_label_smoothing,
        }


def joint_predictions(logits: dict[str, Any]) -> Any:
    """Returns the class probabilities of the source and then of the target, without gradient."""
    return ops.stop_gradient(ops.softmax(ops.concatenate([logits["source"], logits["target"]])))
