from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from dann.adaptation.fitting import (
    as_layers,
    check_blend,
    check_classes,
    fitting_label_head,
    flat_features,
    refuse_discriminator,
)
from dann.adaptation.forward_pass import (
    DomainScores,
    ForwardPass,
    Losses,
    at_least_single,
    in_one_pass,
    is_pair,
    parts_of,
)
from dann.adaptation.pair_classifier import PairClassifier
from dann.adaptation.regularizers.regularizer import Regularizer, check_regularizers
from dann.adaptation.smooth_task import losses_at_moved_weights
from dann.checks import check_number
from dann.layers import GradientReversal
from dann.schedules import StrengthSchedule

PASSES = ("joint", "separate")


class AdversarialModel(PairClassifier):
    """A classifier that learns from labelled source data and from unlabelled target data.

    `fit` takes pairs `({"source": images, "target": images}, source_labels)`, as
    `dann.data.pair` makes them. Everything else treats the model as the plain classifier that it
    is for: `model(images)`, `predict` and `evaluate` take images and give logits `(batch,
    num_classes)`, and `model.classifier` is that network alone, sharing the weights, with nothing
    adversarial in it.

    `compile` fills in sparse categorical cross-entropy from logits where no `loss` is given. In
    training the logs hold `label/loss`, `strength` and whatever the method adds; in evaluation on
    images only the loss and the compiled metrics.

    Inputs may hold a third part, `"target_labelled"`: the few target images of semi-supervised
    training. Their labels follow the source's in the labels, and their loss joins the label loss.

    A method overrides `adversary`, which runs its additional networks, and `adversarial_losses`,
    which names the terms that are added to the label loss. One that needs the target's logits sets
    `classifies_target`; one that weighs the labels overrides `label_loss`.

    Regularizers, such as `dann.adaptation.MCC`, join any method: each adds its weight times its
    loss, and logs the loss under its name.

    Args:
        backbone: Functional model from inputs to features `(batch, num_features)`.
        num_classes: Number of classes. Needed where `label_head` is not given.
        label_head: Functional model from features to logits. Defaults to
            `dann.networks.label_head`.
        strength: Strength of the reversal: a number of at least 0, or a schedule of
            `dann.schedules`. Defaults to `1.0`.
        way: How the reversal is built; see `dann.layers.GradientReversal`.
        passes: `"joint"` (default) runs the backbone once over both domains, so that batch
            normalization in it sees their mixture. `"separate"` runs it on each domain alone, the
            source first; its moving statistics then advance twice a step and lean to the target.
        augmentation: Keras layers, one or a list, under `"source"` and `"target"`, which change the
            images of that domain, and under `"blend"` what takes both after that, `[source,
            target]`, and gives the source: `dann.layers.DomainBlend`. Each may be missing; what
            trains without the unlabelled target leaves out `"blend"`. They run in training alone
            and are no part of `classifier`. Defaults to `None`.
        regularizers: Objects of `dann.adaptation.Regularizer`, or one. Defaults to none.
        task_radius: Above 0, smooth domain-adversarial training (SDAT): every step takes the
            gradient at weights moved by this distance up the label loss, which finds flatter minima
            of it; `.02` to `.05` is usual. The three passes of a step share their noise (dropout,
            augmentation) and leave the state of one; the logged losses are those at the moved
            weights. A step takes about twice as long. Defaults to `0.0`. The formula and its paper
            are in `dann.adaptation.smooth_task`.

    Raises:
        TypeError: If a regularizer or a network is none, or an argument is of a discriminator that
            the method has not.
        ValueError: If the parts do not fit each other, `passes` or a domain is unknown, what is
            under `"blend"` does not make source images of both, two regularizers have one name, the
            label head has one output where the method or a regularizer is `of_classes`, or
            `task_radius` is negative or given without a reversal.
    """

    critic_steps = 1  # how often its critic learns for each step of the rest
    oracle = False  # whether what it takes for the source is the labelled target
    classifies_target = False  # whether the label head runs on the target too in training
    of_classes = False  # whether it says nothing where the label head has one output

    def __init__(
        self,
        backbone: keras.Model,
        num_classes: int | None = None,
        label_head: keras.Model | None = None,
        strength: float | StrengthSchedule | None = 1.0,
        way: str = "override",
        passes: str = "joint",
        augmentation: dict[str, Any] | None = None,
        regularizers: Sequence[Regularizer] = (),
        task_radius: float = 0.0,
        **kwargs,
    ):
        refuse_discriminator(type(self), kwargs)
        super().__init__(**kwargs)
        if passes not in PASSES:
            raise ValueError(f"Argument `passes` must be one of {PASSES}. Received: {passes!r}")
        self.passes = passes
        self.augmentation = as_layers(augmentation or {})
        self.backbone = backbone
        self.num_features = flat_features(backbone)
        check_blend(self.augmentation.get("blend"), backbone)
        self.label_head = fitting_label_head(label_head, self.num_features, num_classes)
        self.num_classes = self.label_head.output_shape[-1]
        logits = self.label_head(backbone.output)
        self.classifier = keras.Model(backbone.input, logits, name="classifier")
        self.regularizers = check_regularizers(regularizers)
        check_classes([self, *self.regularizers], self.num_classes)
        self.regularizer_layers = [layer for r in self.regularizers for layer in r.layers]
        self.task_radius = check_number("task_radius", task_radius, low=0)
        if strength is None and self.task_radius:
            raise ValueError(
                "Argument `task_radius` smooths the task beside an adversary; "
                f"`{type(self).__name__}` has none. Received: task_radius={task_radius}"
            )
        self.reversal = None
        self.track("label/loss", *(f"{r.name}/loss" for r in self.regularizers))
        if strength is not None:
            self.reversal = GradientReversal(strength, way=way, name="reversal")
            self.track("strength")
        self.built = True

    @classmethod
    def adversary_inputs(cls, num_features: int, num_classes: int, **kwargs: Any) -> int:
        """Returns the length of what a domain head takes under these arguments of the method."""
        return num_features

    def call(self, inputs, training=False):
        if not is_pair(inputs):
            return self.classifier(inputs, training=training)
        return self.forward(inputs, training)

    def forward(self, inputs: dict, training: bool) -> ForwardPass:
        """Runs the model on a pair: augmentation, `extract`, `from_features`."""
        start = None
        if training and self.task_radius:
            start = tuple(ops.copy(v.value) for v in self.non_trainable_variables)
        features = self.extract(self.augment(inputs, training), training)
        return self.from_features(features, training)._replace(start=start)

    def from_features(self, features: dict, training: bool) -> ForwardPass:
        """Runs all that comes after the backbone.

        Args:
            features: Features by part of the pair, as `extract` returns them.
            training: Whether this is a training step.
        """
        # Heads may be the user's, in half precision; losses are not made for it.
        logits = {k: at_least_single(v) for k, v in self.classify(features, training).items()}
        adversary = self.adversary(features, logits, training)
        return ForwardPass(features, logits, keras.tree.map_structure(at_least_single, adversary))

    def augment(self, inputs: dict, training: bool) -> dict[str, Any]:
        """Returns the inputs of each domain as its augmentation changes them in training."""
        if not (training and self.augmentation):
            return inputs
        changed = {}
        for name, part in parts_of(inputs).items():
            of_source = name == "source" and not self.oracle
            layer = self.augmentation.get("source" if of_source else "target")
            images = ops.cast(part, self.compute_dtype)
            changed[name] = images if layer is None else layer(images, training=True)
        blend = self.augmentation.get("blend")
        if blend is not None and "target" in changed:
            changed["source"] = blend([changed["source"], changed["target"]], training=True)
        return {**inputs, **changed}

    def extract(self, inputs: dict, training: bool) -> dict[str, Any]:
        """Returns the features of every part of a pair, by the same names."""
        parts = parts_of(inputs)
        if self.passes == "separate":
            return {name: self.backbone(part, training=training) for name, part in parts.items()}
        return in_one_pass(self.backbone, parts, training)

    def classify(self, features: dict, training: bool) -> dict[str, Any]:
        """Returns the logits of the parts that the method classifies, by name, in one pass."""
        target_too = self.classifies_target or any(r.classifies_target for r in self.regularizers)
        chosen = {k: v for k, v in features.items() if k != "target" or target_too}
        return in_one_pass(self.label_head, chosen, training)

    def adversary(self, features: dict, logits: dict, training: bool) -> Any:
        """Runs the networks that the method adds.

        Args:
            features: Features `(batch, num_features)` by part of the pair.
            logits: Logits `(batch, num_classes)` by part; those of the target only where
                `classifies_target` is set.
            training: Whether this is a training step.

        Returns:
            A `typing.NamedTuple` of the method's own, such as `DomainScores`, or `None`.
            `ForwardPass.adversary` holds it, in single precision where it is in half.
        """
        return None

    def through_reversal(
        self, network: Callable[..., Any], features: dict, training: bool
    ) -> DomainScores:
        """Runs a network once over both domains, whose features get its gradient reversed.

        Args:
            network: Takes features and `training`.
            features: Features by part of the pair.
            training: Whether this is a training step.
        """
        both = ops.concatenate([features["source"], features["target"]])
        scores = network(self.reversal(both, training=training), training=training)
        size = ops.shape(features["source"])[0]
        return DomainScores(scores[:size], scores[size:])

    def domain_scores(self, forward: ForwardPass) -> DomainScores | None:
        """Returns the logits of the discriminator of domains, above 0 for the target.

        Returns:
            Logits `(batch, k)` by domain, of `k` discriminators, or `None` where the method has no
            discriminator that each example goes through.
        """
        return None

    def label_loss(self, x, y, forward, sample_weight=None, training=True) -> Any:
        """Returns the loss of the labels by the label head, a scalar."""
        return self.compiled_loss(x, y, forward.label, sample_weight, training)

    def task_loss(self, x, y, forward, sample_weight=None) -> Any:
        """Returns the loss of all labels, a scalar: what `task_radius` smooths."""
        return self.label_loss(x, y, forward, sample_weight)

    def adversarial_losses(self, x: dict, y: Any, forward: ForwardPass) -> dict[str, Any]:
        """Returns the terms that are added to the label loss, scalars by name.

        A term is logged where its name was given to `track`.

        Args:
            x: The pair of inputs.
            y: Source labels, and after them those of the labelled target if there is one.
            forward: The forward pass on the pair.
        """
        return {}

    def logged(self, x: dict, y: Any, forward: ForwardPass) -> dict[str, tuple]:
        """Returns what is logged besides the terms: arguments of trackers by name.

        Args:
            x: The pair of inputs.
            y: Source labels, and after them those of the labelled target if there is one.
            forward: The forward pass on the pair.
        """
        return {}

    def pair_losses(self, x, y, forward, sample_weight=None, training=True) -> Losses:
        """Returns the losses of a pair, and what is to be logged of them.

        No metric is updated and `forward` stays as it is. What a loss draws at random moves its
        generator on, as in any pass.

        Args:
            x: The pair of inputs.
            y: Source labels, and after them those of the labelled target if there is one.
            forward: The forward pass on the pair.
            sample_weight: Weights of the labels, or `None`.
            training: Whether this is a training step.
        """
        label = self.label_loss(x, y, forward, sample_weight, training)
        adversarial = self.adversarial_losses(x, y, forward)
        return self.gathered(x, y, forward, label, adversarial)

    def gathered(self, x, y, forward, label, adversarial) -> Losses:
        """Returns the losses of the labels and of the adversary, and all that comes with them."""
        terms = {"label/loss": label, **adversarial}
        logged = {name: (term,) for name, term in terms.items()}
        logged.update(self.logged(x, y, forward))
        if self.reversal is not None:
            logged["strength"] = (self.reversal.strength,)
        total = 0.0
        for regularizer in self.regularizers:
            loss = regularizer.loss(self, x, forward)
            logged[f"{regularizer.name}/loss"] = (loss,)
            total = ops.add(total, regularizer.weight * loss)
        return Losses(label, adversarial, total, {}, logged)

    def step_losses(self, x, y, forward, sample_weight=None, training=True):
        if forward.start is None:
            return self.pair_losses(x, y, forward, sample_weight, training)
        return losses_at_moved_weights(self, x, y, forward.start, sample_weight)

    def get_config(self):
        config = {
            "backbone": self.backbone,
            "label_head": self.label_head,
            "passes": self.passes,
            "augmentation": dict(self.augmentation),
            "regularizers": self.regularizers,
            "task_radius": self.task_radius,
        }
        if self.reversal is not None:
            reversal = self.reversal
            config["strength"] = reversal.schedule or reversal.initial_strength
            config["way"] = reversal.way
        config = {k: keras.saving.serialize_keras_object(v) for k, v in config.items()}
        return {**super().get_config(), **config}

    @classmethod
    def from_config(cls, config):
        parts = {
            key: keras.saving.deserialize_keras_object(value)
            for key, value in config.items()
            if isinstance(value, dict | list) and key != "dtype"
        }
        return cls(**{**config, **parts})
