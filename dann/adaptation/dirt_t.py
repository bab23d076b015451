from typing import Any

import keras
from keras import ops

from dann.adaptation.adversarial_model import METHODS, AdversarialModel
from dann.adaptation.batch import at_least_single
from dann.adaptation.networks import copy_network
from dann.adaptation.regularizers.conditional_entropy import ConditionalEntropy
from dann.adaptation.regularizers.regularizer import Regularizer
from dann.adaptation.regularizers.self_ensembling import Teacher
from dann.adaptation.regularizers.virtual_adversarial import VirtualAdversarial
from dann.checks import check_integer


@METHODS.register("dirt_t", needs={"radius": 0.5})
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
    predictions certain. `fit` takes pairs. Training does not use their source; `label/loss` and
    `accuracy` show how good the classifier still is there, in inference.
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

    arguments = ("radius", "target_weight", "teacher_weight", "refresh_steps", "seed")
    needs_target_logits = True
    needs_classes = True
    trains_on_labels = False

    def __init__(
        self,
        *args,
        radius: float | None = None,
        target_weight: float = 0.01,
        teacher_weight: float = 0.01,
        refresh_steps: int = 500,
        seed: int | None = None,
        regularizers: Any = (),
        **kwargs,
    ):
        own: list[Any] = [
            _NearTeacher(teacher_weight, refresh_steps),
            ConditionalEntropy(target_weight),
            VirtualAdversarial(target_weight, radius, seed=seed),
        ]
        super().__init__(*args, strength=None, regularizers=[*own, *regularizers], **kwargs)
        self._near_teacher = own[0]
        self.radius, self.seed, self.refresh_steps = radius, seed, refresh_steps
        self.target_weight, self.teacher_weight = target_weight, teacher_weight

    @classmethod
    def from_model(cls, model: AdversarialModel, **kwargs: Any) -> "DIRTT":
        """Returns the second stage of a trained model, which itself stays unchanged.

        Args:
            model: The trained model of the first stage.
            **kwargs: Arguments of the constructor, except the parts of the network.
        """
        second = cls(
            copy_network(model.backbone), label_head=copy_network(model.label_head), **kwargs
        )
        return second.start_from(model)

    def start_from(self, model: keras.Model) -> "DIRTT":
        """Takes over the weights of a trained model with the same network; returns itself.

        Args:
            model: A trained `AdversarialModel`, or its `classifier`.

        Raises:
            ValueError: If the shapes of weights differ.
        """
        trained = model.classifier if isinstance(model, AdversarialModel) else model
        for network in (self.classifier, self.teacher):
            network.set_weights(trained.get_weights())
        self.step.assign(0)
        return self

    @property
    def teacher(self) -> keras.Model:
        """The classifier of some steps ago."""
        return self._near_teacher.teacher.network

    @property
    def step(self) -> keras.Variable:
        """Number of training steps so far."""
        return self._near_teacher.teacher.step

    def extract_features(self, inputs, training):
        if "target_labelled" in inputs:
            raise ValueError(
                "`DIRTT` learns from no labels; give the target's labels to the first stage. "
                "Received: a labelled target"
            )
        return {
            "source": self.backbone(inputs["source"], training=False),
            "target": self.backbone(inputs["target"], training=training),
        }

    def classify(self, features, training):
        watched = self.label_head(features["source"], training=False)
        learnt = self.label_head(features["target"], training=training)
        return {"source": ops.stop_gradient(watched), "target": learnt}

    def get_config(self):
        given = self.regularizers[3:]  # the first are the method's own
        return {**super().get_config(), "regularizers": keras.saving.serialize_keras_object(given)}


class _NearTeacher(Regularizer):
    """The divergence `K` from the teacher, which takes over the weights from time to time."""

    name = "teacher"

    def __init__(self, weight, refresh_steps):
        super().__init__(weight)
        self.refresh_steps = check_integer("refresh_steps", refresh_steps, low=1)
        self.teacher: Any = None

    def join(self, model):
        self.teacher = Teacher(copy_network(model.classifier), name="teacher")
        self.teacher.network.set_weights(model.classifier.get_weights())
        self.layers = (self.teacher,)

    def before_step(self, model):
        is_kept = self.teacher.step.value % self.refresh_steps != 0
        self.teacher.learn_from(model.classifier, ops.cast(is_kept, "float32"))

    def loss(self, model, x, batch):
        taught = at_least_single(self.teacher(batch.inputs["target"]))
        log_p, log_q = map(ops.log_softmax, (batch.logits["target"], taught))
        return ops.mean(ops.sum(ops.exp(log_q) * (log_q - log_p), axis=-1))
