from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from dann.adaptation.augmentation import as_layers, augmented, check_blend
from dann.adaptation.backbone_classifier import BackboneClassifier
from dann.adaptation.forward_pass import (
    DomainScores,
    ForwardPass,
    Losses,
    at_least_single,
    in_one_pass,
    is_pair,
    parts_of,
)
from dann.adaptation.model_parts import (
    check_classes,
    refuse_discriminator,
    refuse_no_strength,
)
from dann.adaptation.regularizers.regularizer import (
    Regularizer,
    check_logits_of,
    check_regularizers,
)
from dann.adaptation.smooth_task import losses_at_moved_weights
from dann.checks import check_choice, check_number
from dann.layers import GradientReversal
from dann.schedules import StrengthSchedule

PASSES = ("joint", "separate")


class AdversarialModel(BackboneClassifier):
    """A classifier that learns from labelled source data and from unlabelled target data.

    `fit` takes pairs `({"source": images, "target": images}, source_labels)`, as `dann.data.pair`
    makes them. Everything else treats the model as a plain classifier: `model(images)`, `predict`
    and `evaluate` take images and give logits `(batch, num_classes)`. `model.classifier` is that
    network alone. It shares the weights and has nothing adversarial in it.

    `compile` uses sparse categorical cross-entropy from logits if no `loss` is given. In training
    the logs hold `label/loss`, `strength` and what the method adds; in evaluation on images they
    hold only the loss and the compiled metrics.

    Pairs may have a third part, `"target_labelled"`: the few labelled target images of
    semi-supervised training. Their labels follow the source's, and their loss joins the label loss.

    A pair goes through the model in two steps, which anyone may call:

        features = model.extract(inputs, training)  # by part of the pair
        forward = model.from_features(features, training)  # a ForwardPass
        losses = model.pair_losses(inputs, labels, forward, training=training)  # Losses

    `call` puts `before_step`, in training, and the augmentation before them. `compute_loss` takes
    the total of the losses and logs them; `pair_losses` itself logs nothing.
    `domain_scores(forward)` returns the discriminator's logits for each example. `critic_steps` is
    the number of critic steps per step of the other networks.
    `from_features(..., reversal=other)` puts another function in the reversal's place, as the
    diagnostics do to see the gradient on both sides of it.

    A method overrides

    - `adversary`, which runs the networks that it adds, and which its constructor makes in
      `when_known`, as soon as the number of features is,
    - `adversarial_losses`, the terms that it adds to the label loss, and `logged`, what else it
      logs; `track` names both for the logs,
    - `label_loss` if it weighs the labels, and `task_loss` if it has more losses of labels,
    - `classifies_target = True` if it needs the target's logits, `of_classes = True` if it makes no
      sense with a single output.

    Regularizers, such as `dann.MCC`, join any method: each adds its weight times its loss and logs
    the loss under its name.

    These arguments are those of every method, unless its own documentation says otherwise:

    Args:
        backbone: Any Keras model or layer from inputs to features `(batch, num_features)`:
            functional, sequential, subclassed, one of `keras.applications`. Methods that say so
            also take maps of features `(batch, ..., num_features)`. Its inputs may be one
            tensor or a dict, tuple or list of several. If it is not built, it and all that follows
            it are built at the first batch, as any subclassed Keras model.
        num_classes: Number of classes. Needed if `label_head` is not given.
        label_head: Any Keras model or layer from features to logits. Defaults to
            `dann.networks.label_head`, and for maps to one layer that classifies each position;
            labels are then maps, too.
        strength: Strength of the reversal: a number of at least 0, or a schedule of
            `dann.schedules`. Defaults to `1.0`.
        way: How the reversal is built; see `dann.layers.GradientReversal`.
        passes: `"joint"` (default) runs the backbone once over both domains, so that its batch
            normalization sees their mixture. `"separate"` runs it on each domain alone, the source
            first; its moving statistics then advance twice a step and lean towards the target.
        augmentation: Keras layers, one or a list, under `"source"` and `"target"`, which change the
            images of that domain; and under `"blend"` a layer, such as `dann.layers.DomainBlend`,
            that afterwards takes `[source, target]` and gives the source. Each key may be missing;
            methods that train without the unlabelled target ignore `"blend"`. The layers run in
            training only and are not part of `classifier`. Defaults to `None`.
        regularizers: Objects of `dann.adaptation.Regularizer`, or one. Defaults to none.
        task_radius: Above 0, smooth domain-adversarial training (SDAT): every step takes the
            gradient at weights moved by this distance up the label loss, which finds flatter minima
            of it; `.02` to `.05` is usual. The three passes of a step share their noise (dropout,
            augmentation) and change the model's state as one pass does; the logged losses are those
            at the moved weights. A step takes about twice as long. Defaults to `0.0`. The formula
            and its paper are in `dann.adaptation.smooth_task`.

    Raises:
        TypeError: If a regularizer or a network has the wrong type, or if an argument belongs to a
            discriminator that the method does not have.
        ValueError: If the parts do not fit each other; if `passes` or a domain is unknown; if the
            `"blend"` does not give source images; if two regularizers have one name; if the label
            head has a single output and the method or a regularizer is `of_classes`; if
            `task_radius` is above 0 in a method without a reversal; if a number of this or another
            method is out of its range.
    """

    critic_steps = 1  # of the critic per step of the other networks
    oracle = False  # whether the labelled part of its pairs is the target
    classifies_target = False  # whether training needs the target's logits
    of_classes = False  # whether it compares classes, so that it needs at least two outputs

    def __init__(
        self,
        backbone: keras.Layer,
        num_classes: int | None = None,
        label_head: keras.Layer | None = None,
        strength: float | StrengthSchedule | None = 1.0,
        way: str = "override",
        passes: str = "joint",
        augmentation: dict[str, Any] | None = None,
        regularizers: Sequence[Regularizer] = (),
        task_radius: float = 0.0,
        **kwargs,
    ):
        refuse_discriminator(type(self), kwargs)
        refuse_no_strength(type(self), strength)
        super().__init__(backbone, num_classes, label_head, **kwargs)
        self.passes = check_choice("passes", passes, PASSES)
        self.augmentation = as_layers(augmentation or {})
        self.when_known(self._check_blend)
        self.regularizers = check_regularizers(regularizers)
        check_classes([self, *self.regularizers], self.num_classes)
        self.when_known(self._join_regularizers)
        self.task_radius = check_number("task_radius", task_radius, low=0)
        if strength is None and self.task_radius:
            raise ValueError(
                "Argument `task_radius` needs a method with a gradient reversal; "
                f"`{type(self).__name__}` has none. Received: task_radius={task_radius}"
            )
        self.reversal = None
        self.track("label/loss", *(f"{r.name}/loss" for r in self.regularizers))
        if strength is not None:
            self.reversal = GradientReversal(strength, way=way, name="reversal")
            self.track("strength")

    @property
    def strength(self) -> Any:
        """Strength of the reversal. Unless it follows a schedule, it may be set at any time."""
        if self.reversal is None:
            raise AttributeError(
                f"`{type(self).__name__}` has no strength, because it has no gradient reversal"
            )
        return self.reversal.strength

    @strength.setter
    def strength(self, value: float):
        if self.reversal is None:
            raise AttributeError(
                f"`{type(self).__name__}` has no gradient reversal, so there is no strength to "
                f"set. Received: strength={value}"
            )
        self.reversal.strength = value  # pyright: ignore[reportAttributeAccessIssue]

    def _join_regularizers(self):
        for regularizer in self.regularizers:
            regularizer.join(self)
        self.regularizer_layers = [layer for r in self.regularizers for layer in r.layers]

    def _check_blend(self):
        check_blend(self.augmentation.get("blend"), self.input_specs)

    @classmethod
    def adversary_inputs(cls, num_features: int, num_classes: int, **kwargs: Any) -> int:
        """Returns the length of the domain head's input, given other arguments of the method."""
        return num_features

    def call(self, inputs, training=False):
        if not is_pair(inputs):
            return self.classified(inputs, training)
        if training:
            self.before_step()
        return self.run_pair(inputs, training)

    def before_step(self) -> None:
        """Lets the regularizers do what they do before each training step."""
        for regularizer in self.regularizers:
            regularizer.before_step(self)

    def run_pair(self, inputs: dict, training: bool) -> ForwardPass:
        """Runs the model on a pair: augmentation, `extract`, `from_features`."""
        start = None
        if training and self.task_radius:
            start = tuple(ops.copy(v.value) for v in self.non_trainable_variables)
        features = self.extract(self.augment(inputs, training), training)
        return self.from_features(features, training)._replace(start=start)

    def from_features(
        self, features: dict, training: bool, reversal: Callable[..., Any] | None = None
    ) -> ForwardPass:
        """Runs everything after the backbone, on what `extract` returned.

        Args:
            features: Features `(batch, num_features)` by part of the pair.
            training: Whether this is a training step.
            reversal: What to run in place of the model's reversal, called as
                `reversal(tensor, training=training)`. Defaults to the model's own, `self.reversal`.
        """
        # Heads may be the user's, in half precision; losses are not made for it.
        logits = {k: at_least_single(v) for k, v in self.classify(features, training).items()}
        reversal = self.reversal if reversal is None else reversal
        adversary = self.adversary(features, logits, training, reversal)
        return ForwardPass(features, logits, keras.tree.map_structure(at_least_single, adversary))

    def augment(self, inputs: dict, training: bool) -> dict[str, Any]:
        """Returns the pair with each part changed by its augmentation, in training only."""
        if not (training and self.augmentation):
            return inputs
        how = self.augmentation, self.oracle, self.compute_dtype, self.input_specs
        return augmented(inputs, *how)

    def extract(self, inputs: dict, training: bool) -> dict[str, Any]:
        """Returns the features of every part of a pair, by the same names."""
        parts = parts_of(inputs)
        if self.passes == "separate":
            return {name: self.backbone(part, training=training) for name, part in parts.items()}
        return in_one_pass(self.backbone, parts, training)

    def classify(self, features: dict, training: bool) -> dict[str, Any]:
        """Returns logits by part of the pair, in one pass; the target's only if needed."""
        target_too = self.classifies_target or any(r.classifies_target for r in self.regularizers)
        chosen = {k: v for k, v in features.items() if k != "target" or target_too}
        return in_one_pass(self.label_head, chosen, training)

    def adversary(self, features: dict, logits: dict, training: bool, reversal: Any) -> Any:
        """Runs the networks that the method adds.

        Args:
            features: Features `(batch, num_features)` by part of the pair.
            logits: Logits `(batch, num_classes)` by part; those of the target only where
                `classifies_target` is set.
            training: Whether this is a training step.
            reversal: What reverses the gradient of features: `reversal(features,
                training=training)`. The layer `self.reversal`, unless the caller of
                `from_features` chose another; `None` if the method has no reversal.

        Returns:
            A `typing.NamedTuple` of the method's own, such as `DomainScores`, or `None`.
            `ForwardPass.adversary` holds it, in single precision where it is in half.
        """
        return None

    def domain_scores(self, forward: ForwardPass) -> DomainScores | None:
        """Returns the domain discriminator's logits of each example, above 0 for the target.

        Returns:
            Logits `(batch, k)` by domain, of `k` discriminators; `None` if the method has none that
            sees every example.
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

        A term is logged where its name was given to `track`. The arguments are those of
        `pair_losses`.
        """
        return {}

    def logged(self, x: dict, y: Any, forward: ForwardPass) -> dict[str, tuple]:
        """Returns what to log besides the terms: arguments for `update_state`, by tracker."""
        return {}

    def pair_losses(self, x, y, forward, sample_weight=None, training=True) -> Losses:
        """Returns the losses of a pair and what to log of them, without logging it.

        It changes neither metrics nor `forward`. A loss that draws random numbers moves its
        generator on, as any pass does.

        Args:
            x: The pair of inputs.
            y: Source labels, followed by the labelled target's if there is one.
            forward: The forward pass on the pair.
            sample_weight: Weights of the labels, or `None`.
            training: Whether this is a training step.
        """
        label = self.label_loss(x, y, forward, sample_weight, training)
        adversarial = self.adversarial_losses(x, y, forward)
        return self.gathered(x, y, forward, label, adversarial)

    def gathered(self, x, y, forward, label, adversarial) -> Losses:
        """Returns `Losses` of a label loss and a method's terms, adding what all methods have."""
        terms = {"label/loss": label, **adversarial}
        logged = {name: (term,) for name, term in terms.items()}
        logged.update(self.logged(x, y, forward))
        if self.reversal is not None:
            logged["strength"] = (self.reversal.strength,)
        total = 0.0
        for regularizer in self.regularizers:
            check_logits_of(regularizer, next(iter(forward.logits.values())))
            loss = regularizer.loss(self, x, forward)
            logged[f"{regularizer.name}/loss"] = (loss,)
            total = ops.add(total, regularizer.weight * loss)
        return Losses(label, adversarial, total, {}, logged)

    def step_losses(self, x, y, forward, sample_weight=None, training=True):
        if not (training and self.task_radius):
            return self.pair_losses(x, y, forward, sample_weight, training)
        if forward.start is None:
            raise ValueError(
                "A smooth step (`task_radius`) repeats the pass from the state before it, which "
                "only `model(pair, training=True)` keeps; `pair_losses` takes any pass. Received: "
                "a forward pass without `start`"
            )
        return losses_at_moved_weights(self, x, y, forward.start, sample_weight)

    def get_config(self):
        config = {
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
        # Keras shows the config where it does not find the class.
        return {"load_after": "import dann", **super().get_config(), **config}

    @classmethod
    def from_config(cls, config):
        parts = {
            key: keras.saving.deserialize_keras_object(value)
            for key, value in config.items()
            if isinstance(value, dict | list) and key != "dtype"
        }
        given = {key: value for key, value in config.items() if key != "load_after"}
        return cls(**{**given, **parts})
