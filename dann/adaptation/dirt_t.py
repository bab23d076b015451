from typing import Any, NamedTuple

import keras
from keras import ops

from dann.adaptation.adversarial_model import AdversarialModel
from dann.adaptation.forward_pass import ForwardPass, at_least_single, is_pair
from dann.adaptation.methods import METHODS
from dann.adaptation.model_parts import copy_of, refuse_discriminator
from dann.adaptation.regularizers.conditional_entropy import ConditionalEntropy
from dann.adaptation.regularizers.virtual_adversarial import VirtualAdversarial
from dann.checks import check_integer, check_number
from dann.layers.state import add_state


class TeacherLogits(NamedTuple):
    """Logits of the teacher for the target, `(batch, num_classes)`."""

    logits: Any


@METHODS.register(
    "dirt_t",
    summary="a second stage on the target alone, taught by its own past",
    when="after a first stage that is mostly right",
    title="DIRT-T",
    needs={"radius": 0.5},
    python="DIRTT.from_model(trained, radius=...)",
    command="method=dirt_t method.teacher=<run>",
)
@keras.saving.register_keras_serializable("dann")
class DIRTT(AdversarialModel):
    """Decision-boundary iterative refinement training with a teacher: a second stage.

    It continues the classifier of another method on the target alone, without labels. The boundary
    moves out of the regions where target examples are dense. Each step stays near the teacher, the
    classifier of some steps ago.

    With probabilities `p` of the classifier and `q` of the teacher, one step descends

    - `teacher_weight * K + target_weight * (H + V)`, where
    - `K = mean_t KL(q(x_t) || p(x_t))`
    - `H = mean_t H(p(x_t))`, the conditional entropy
    - `V`: virtual adversarial training of `radius`; see `VirtualAdversarial`

    At the first training step and every `refresh_steps` steps after it, the teacher takes over the
    classifier's weights; the authors' code uses a moving average of them. In between it is constant
    and runs in inference mode. The teacher and the count of steps are saved weights.

    Start from a trained first stage, with `from_model`: refining random weights only makes wrong
    predictions certain. `fit` takes target inputs alone, `fit(images)`, or pairs; on JAX, where
    Keras builds losses and metrics from labels, pairs only. Training does not use the source of a
    pair; `label/loss` and `accuracy` show how good the classifier still is there, in inference.
    The logs also hold `teacher/loss`, `entropy/loss` and `vat/loss`, each before its factor.

    Args:
        radius: Length of the perturbation in the units of the inputs, above 0; must be given.
        target_weight: Factor of `H` and of `V`, at least 0. Defaults to `0.01`.
        teacher_weight: Factor of `K`, at least 0. Defaults to `0.01`.
        refresh_steps: Training steps from one teacher to the next, at least 1. Defaults to `500`;
            the authors use 5,000 for MNIST to SVHN.
        seed: Seed of the virtual adversarial directions. Defaults to a random one.
        augmentation: As in `AdversarialModel`. The teacher sees the same images.
        regularizers: As in `AdversarialModel`, besides those of the method.

    The other arguments are those of `AdversarialModel`, without those of a reversal.

    Raises:
        TypeError: If `radius` is not given.

    Example:

    >>> import dann
    >>> first = dann.DANN(dann.networks.mlp_backbone((2,)), num_classes=3)
    >>> second = dann.DIRTT.from_model(first, radius=0.5)
    >>> second.compile("adam", metrics=["accuracy"])

    Reference:
        - [Shu et al., 2018](https://arxiv.org/abs/1802.08735), equations 9 (`H + V`) and 14.
    """

    classifies_target = True
    of_classes = True

    def __init__(
        self,
        backbone,
        num_classes=None,
        label_head=None,
        radius=None,
        target_weight=0.01,
        teacher_weight=0.01,
        refresh_steps=500,
        seed=None,
        regularizers=(),
        **kwargs,
    ):
        refuse_discriminator(type(self), kwargs)
        self.target_weight = check_number("target_weight", target_weight, low=0)
        own = [
            ConditionalEntropy(target_weight),
            VirtualAdversarial(target_weight, radius, seed=seed),
        ]
        super().__init__(
            backbone,
            num_classes,
            label_head,
            strength=None,
            regularizers=[*own, *regularizers],
            **kwargs,
        )
        self.radius, self.seed = radius, seed
        self.teacher_weight = check_number("teacher_weight", teacher_weight, low=0)
        self.refresh_steps = check_integer("refresh_steps", refresh_steps, low=1)
        self.when_known(self._make_teacher)
        if self.built:
            self.teacher.set_weights(self.classifier.get_weights())
        self.step = add_state(self, "step", "int", 0)
        self.track("teacher/loss")

    @classmethod
    def from_model(cls, model: AdversarialModel, **kwargs: Any) -> "DIRTT":
        """Returns the second stage of a trained model, which itself stays unchanged.

        Args:
            model: The trained model of the first stage.
            **kwargs: Arguments of the constructor, except the parts of the network.

        Raises:
            TypeError: If `model` is not an `AdversarialModel`.
        """
        if not isinstance(model, AdversarialModel):
            raise TypeError(
                "Argument `model` must be an `AdversarialModel`; give a `classifier` alone to "
                f"`start_from` of a `DIRTT` with the same network. Received: {type(model).__name__}"
            )
        return cls(_copy(model.backbone), label_head=_copy(model.label_head), **kwargs)

    def _make_teacher(self):
        self.teacher = copy_of(self.classifier)
        self.teacher.name = "teacher"
        self.teacher.trainable = False

    def start_from(self, model: keras.Model) -> "DIRTT":
        """Takes over the weights of a trained model with the same network; returns itself.

        Args:
            model: A trained `AdversarialModel`, or its `classifier`.

        Raises:
            ValueError: If the shapes of inputs, classes or weights differ.
        """
        trained = model.classifier if isinstance(model, AdversarialModel) else model
        for what in ("input_shape", "output_shape"):
            mine, other = getattr(self.classifier, what), getattr(trained, what)
            if mine != other:
                raise ValueError(
                    f"The trained model must have the second stage's {what.replace('_', ' ')}, "
                    f"{mine}. Received: {other}"
                )
        shapes = [[tuple(w.shape) for w in one.weights] for one in (self.classifier, trained)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                "The trained model must have the second stage's network, with weights of the "
                f"shapes {shapes[0]}. Received: {shapes[1]}"
            )
        for network in (self.classifier, self.teacher):
            network.set_weights(trained.get_weights())
        self.step.assign(0)
        return self

    def call(self, inputs, training=False):
        pair = inputs
        if not is_pair(inputs):
            if not training:
                return self.classified(inputs, training=False)
            pair = {"target": inputs}
        if "target_labelled" in pair:
            raise ValueError(
                "`DIRTT` learns from no labels; give the target's labels to the first stage. "
                "Received: a labelled target"
            )
        if training:
            self.before_step()
            self._refresh()
        return self.run_pair(pair, training)

    def run_pair(self, inputs, training):
        seen = self.augment(inputs, training)
        forward = self.from_features(self.extract(seen, training), training)
        return forward._replace(adversary=self._taught(seen))

    def extract(self, inputs, training):
        features = {"target": self.backbone(inputs["target"], training=training)}
        if "source" in inputs:
            features["source"] = self.backbone(inputs["source"], training=False)
        return features

    def classify(self, features, training):
        logits = {"target": self.label_head(features["target"], training=training)}
        if "source" in features:
            watched = self.label_head(features["source"], training=False)
            logits["source"] = ops.stop_gradient(watched)
        return logits

    def _taught(self, inputs):
        """Returns what the teacher says of the target, in inference."""
        return TeacherLogits(at_least_single(self.teacher(inputs["target"], training=False)))

    def _refresh(self):
        """Copies the classifier into the teacher if it is time, and counts the step."""
        due = ops.equal(self.step.value % self.refresh_steps, 0)
        for old, new in zip(self.teacher.weights, self.classifier.weights, strict=True):
            old.assign(ops.where(due, new.value, old.value))
        self.step.assign_add(1)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if isinstance(y_pred, ForwardPass) and not is_pair(x):
            if y is not None:
                raise ValueError(
                    "`DIRTT` learns from no labels: call `fit(images)`, or `fit(pairs)`, whose "
                    "source it watches. Received: inputs of one domain with labels"
                )
            x = {"target": x}
        return super().compute_loss(x, y, y_pred, sample_weight, training=training)

    def pair_losses(self, x, y, forward, sample_weight=None, training=True):
        # The losses of the layers, such as weight decay; the next passes would replace them.
        layers = self.classifier.losses
        # A pass that was made from features has not seen the inputs, which the teacher needs.
        teacher = forward.adversary or self._taught(x)
        log_p, log_q = map(ops.log_softmax, (forward.logits["target"], teacher.logits))
        divergence = ops.mean(ops.sum(ops.exp(log_q) * (log_q - log_p), axis=-1))
        taught = {"teacher": self.teacher_weight * divergence}
        losses = self.gathered(x, y, forward, ops.zeros_like(divergence), taught)
        logged = {**losses.logged, "teacher/loss": (divergence,)}
        logged.pop("label/loss")
        if "source" in forward.logits:
            watched = self.label_loss(x, y, forward, sample_weight, training)
            logged["label/loss"] = (watched,)
        of_layers = {f"layers/{i}": ops.sum(term) for i, term in enumerate(layers)}
        return losses._replace(others=of_layers, logged=logged)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        if isinstance(y_pred, ForwardPass) and not is_pair(x):
            # There are no labels to compare with.
            known = {"loss", *self.trackers} - {"label/loss"}
            return {metric.name: metric.result() for metric in self.metrics if metric.name in known}
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def get_metrics_result(self):
        # Without labels, compiled metrics may never be built; Keras asks them all the same.
        if all(getattr(metric, "built", True) for metric in self.metrics):
            return super().get_metrics_result()
        return {}

    def get_config(self):
        config = super().get_config()
        others = self.regularizers[2:]  # the first two are the method's own
        return {
            **config,
            "regularizers": keras.saving.serialize_keras_object(others),
            "radius": self.radius,
            "target_weight": self.target_weight,
            "teacher_weight": self.teacher_weight,
            "refresh_steps": self.refresh_steps,
            "seed": self.seed,
        }


def _copy(network):
    """Returns a copy of a network with its own weights."""
    copy = copy_of(network)
    copy.set_weights(network.get_weights())
    return copy
