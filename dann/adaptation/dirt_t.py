from typing import Any, Unpack

import keras
from keras import ops

from dann.adaptation.adversarial_model import METHODS, AdversarialModel
from dann.adaptation.batch import upcast_half
from dann.adaptation.networks import check_network, copy_network
from dann.adaptation.options import NetworkOptions, reject_reversal_options
from dann.adaptation.regularizers.conditional_entropy import ConditionalEntropy
from dann.adaptation.regularizers.regularizer import Regularizer, check_regularizers
from dann.adaptation.regularizers.self_ensembling import Teacher
from dann.adaptation.regularizers.virtual_adversarial import VirtualAdversarial
from dann.checks import check_integer


@METHODS.register("dirt_t", example_arguments={"radius": 0.5})
class DIRTT(AdversarialModel):
    """Decision-boundary iterative refinement training with a teacher: a second stage.

    The method continues to train the classifier of another method on the target alone, without
    labels. The decision boundary moves out of the regions where target examples are dense. In each
    step, the predictions stay close to the predictions of the teacher, an earlier state of the
    classifier.

    With probabilities `p` of the classifier and `q` of the teacher, each step minimizes

    - `teacher_weight * K + target_weight * (H + V)`, where
    - `K = mean_t KL(q(x_t) || p(x_t))`
    - `H = mean_t H(p(x_t))`, the conditional entropy
    - `V`: virtual adversarial training of `radius`; see `VirtualAdversarial`

    `K`, `H` and `V` are three regularizers of the model. At the first training step and after every
    `refresh_steps` steps, the teacher copies the weights of the classifier; the authors' code uses
    a moving average of these weights. Otherwise the teacher is constant. It runs in inference mode.
    The weights of the teacher and the number of steps are saved with the model.

    Start from a trained first stage, with `from_model`: refining random weights only makes wrong
    predictions confident. `fit` accepts pairs but does not train on the source; `label/loss` and
    `accuracy` measure the classifier on the source in inference mode. The logs also contain
    `teacher/loss`, `entropy/loss` and `vat/loss`, each before its factor.

    Args:
        backbone: Network from inputs to features; see `AdversarialModel`.
        num_classes: Number of classes. Required without a `label_head`.
        label_head: Network from features to logits; see `AdversarialModel`.
        radius: Length of the perturbation in the units of the inputs, above 0.
        target_weight: Factor of `H` and of `V`, at least 0. Defaults to `0.01`.
        teacher_weight: Factor of `K`, at least 0. Defaults to `0.01`.
        refresh_steps: Training steps between two updates of the teacher, at least 1. Defaults to
            `500`; the authors use 5,000 for MNIST to SVHN.
        seed: Seed of the virtual adversarial directions. Defaults to a random seed.
        **options: Options of `AdversarialModel` except `strength`, `implementation` and
            `task_radius`. The teacher receives the augmented inputs. The loss also includes
            `regularizers`.

    Raises:
        TypeError: If `options` contains `strength`, `implementation` or a `task_radius` above 0.
        ValueError: If a number is out of range, or a batch contains a labeled target.

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

    def __init__(
        self,
        backbone: Any,
        num_classes: int | None = None,
        label_head: Any = None,
        *,
        radius: float,
        target_weight: float = 0.01,
        teacher_weight: float = 0.01,
        refresh_steps: int = 500,
        seed: int | None = None,
        **options: Unpack[NetworkOptions],
    ):
        reject_reversal_options("DIRTT", options)
        consistency = _TeacherConsistency(teacher_weight, refresh_steps)
        method_terms = [
            consistency,
            ConditionalEntropy(target_weight),
            VirtualAdversarial(target_weight, radius, seed=seed),
        ]
        extra_regularizers = check_regularizers(options.get("regularizers", ()))
        options["regularizers"] = [*method_terms, *extra_regularizers]
        super().__init__(backbone, num_classes, label_head, strength=None, **options)
        self._consistency, self._extra_regularizers = consistency, extra_regularizers
        self.radius, self.seed, self.refresh_steps = radius, seed, refresh_steps
        self.target_weight, self.teacher_weight = target_weight, teacher_weight

    @classmethod
    def from_model(cls, model: AdversarialModel, **kwargs: Any) -> "DIRTT":
        """Returns the second stage of a trained model; the trained model does not change.

        Args:
            model: The trained model of the first stage.
            **kwargs: Arguments of the constructor except the networks.

        Raises:
            TypeError: If the model is not an `AdversarialModel`.
        """
        if not isinstance(model, AdversarialModel):
            raise TypeError(
                "Expected `model` to be a method, such as `dann.DANN`. Received: "
                f"{model!r}. For another classifier, write `DIRTT(backbone, label_head=head, "
                "radius=...).load_first_stage(classifier)` with its two networks."
            )
        label_head = copy_network(model.label_head)
        second_stage = cls(copy_network(model.backbone), label_head=label_head, **kwargs)
        return second_stage.load_first_stage(model)

    def load_first_stage(self, model: keras.Model) -> "DIRTT":
        """Copies the weights of a trained model with the same network and returns this model.

        Args:
            model: A trained `AdversarialModel`, or its `classifier`.

        Raises:
            TypeError: If `model` is not a Keras model.
            ValueError: If the shapes of weights differ.
        """
        is_method = isinstance(model, AdversarialModel)
        classifier = model.classifier if is_method else check_network("model", model)
        for network in (self.classifier, self.teacher):
            network.set_weights(classifier.get_weights())
        self.step.assign(0)  # the next training step begins a period of the teacher
        return self

    @property
    def teacher(self) -> keras.Model:
        """The earlier state of the classifier."""
        return self._consistency.teacher.network

    @property
    def step(self) -> keras.Variable:
        """Number of training steps so far."""
        return self._consistency.teacher.step

    def extract_features(self, inputs, training):
        if "target_labeled" in inputs:
            raise ValueError(
                "Expected pairs without a labeled target, because `DIRTT` uses no labels. "
                "Received: a labeled target. Pass its labels to the first stage."
            )
        # The source is only measured: in training mode it would change the moving statistics.
        return {
            "source": self.backbone(inputs["source"], training=False),
            "target": self.backbone(inputs["target"], training=training),
        }

    def classify(self, features, training):
        source = self.label_head(features["source"], training=False)
        target = self.label_head(features["target"], training=training)
        return {"source": ops.stop_gradient(source), "target": target}

    def total_loss(self, terms, layer_losses=()):
        # The label loss is only logged.
        terms = {name: term for name, term in terms.items() if name != "label/loss"}
        return super().total_loss(terms, layer_losses)

    def get_config(self):
        regularizers = keras.saving.serialize_keras_object(self._extra_regularizers)
        return {**super().get_config(), "regularizers": regularizers}


class _TeacherConsistency(Regularizer):
    """The divergence `K` of `DIRTT` from a teacher that copies the weights at intervals."""

    name = "teacher"

    def __init__(self, weight: float, refresh_steps: int):
        super().__init__(weight)
        self.refresh_steps = check_integer("refresh_steps", refresh_steps, low=1)
        self.teacher: Any = None

    def attach(self, model):
        self.teacher = Teacher(copy_network(model.classifier), name="teacher")
        self.teacher.network.set_weights(model.classifier.get_weights())
        self.layers = (self.teacher,)

    def before_step(self, model):
        # A decay of 1 keeps the teacher, a decay of 0 copies the classifier.
        is_constant = self.teacher.step.value % self.refresh_steps != 0
        self.teacher.update(model.classifier, ops.cast(is_constant, "float32"))

    def losses(self, model, batch, reversal, training):
        teacher_logits = upcast_half(self.teacher(batch.inputs["target"]))
        # Equation 14: KL(q || p) for each target example, (batch,)
        log_p, log_q = map(ops.log_softmax, (batch.logits["target"], teacher_logits))
        divergence = ops.sum(ops.exp(log_q) * (log_q - log_p), axis=-1)
        return {"teacher/loss": ops.mean(divergence)}
