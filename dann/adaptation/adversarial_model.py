from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from dann.adaptation import fitting
from dann.adaptation.augmentation import as_layers, augmented
from dann.adaptation.batch import (
    Batch,
    at_least_single,
    in_one_pass,
    in_own_passes,
    is_pair,
    select_parts,
    sum_losses,
    weights_of_positions,
)
from dann.adaptation.labels import check_form, loss_of_logits, metrics_of_logits, refuse_classes
from dann.adaptation.networks import NAMES_OF_ADAPT, OneCall, features_of, fitting_label_head
from dann.adaptation.regularizers.regularizer import Regularizer, check_regularizers
from dann.adaptation.saving import deserialized, load_state, save_state, serialized
from dann.adaptation.smooth_task import smooth_terms
from dann.checks import check_number
from dann.gradients.reversal import reject_foreign_names
from dann.layers import GradientReversal
from dann.registry import Registry
from dann.schedules import StrengthSchedule

# The methods by the name that chooses them. Facts: `arguments` are those that make a
# variant of the class; `needs` are arguments without a default, with values to try them.
METHODS: Registry[type] = Registry(saved=True)

_ARGUMENTS = ("backbone", "label_head", "joint_forward", "regularizers", "task_radius")


class AdversarialModel(keras.Model):
    """A classifier that learns from labelled source data and from unlabelled target data.

    `fit` takes pairs `({"source": images, "target": images}, source_labels)`, as `dann.data.pair`
    makes them. `model(images)`, `predict` and `evaluate` take images and give logits `(batch,
    num_classes)`. `model.classifier` is that plain network; it shares the weights.

    `compile` uses sparse categorical cross-entropy from logits if no `loss` is given. In training
    the logs hold `label/loss`, `strength` and what the method and the regularizers add; `loss` also
    holds what layers add, except for the outputs of the method's own networks.

    Pairs may have a third part, `"target_labelled"`: the few labelled target images. Their labels
    follow the source's, and their loss joins the label loss.

    A method makes its networks in its constructor, from `self.feature_shape` and
    `self.num_classes`, names its `terms` and `arguments`, and overrides `method_losses`.

    Args:
        backbone: Any built Keras model or layer from one or several inputs to features `(batch,
            num_features)`. Methods that say so also take maps `(batch, ..., num_features)`.
        num_classes: Number of classes. Needed if `label_head` is not given.
        label_head: Any Keras model or layer from features to logits. Defaults to
            `dann.networks.label_head`, for maps to one layer that classifies each position.
        strength: Strength of the reversal: a number of at least 0, a schedule of `dann.schedules`,
            or `None` for a method without one. Defaults to `0.1`, to which the script rises.
        implementation: How the reversal is built; see `dann.layers.GradientReversal`.
        joint_forward: Whether the backbone runs once over both domains, so that its batch
            normalization sees their mixture. `False` runs it on each domain separately; losses
            that layers add are then weighted by the domains' sizes. Defaults to `True`.
        augmentation: Keras layers, one or a list, under `"source"` and `"target"`, for training;
            under `"blend"` one such as `DomainBlend`, from `[source, target]` to the source.
        regularizers: Objects of `dann.adaptation.Regularizer`, or one. Defaults to none.
        task_radius: Above 0, as `.02`, smooth training (SDAT); see `dann.adaptation.smooth_task`.
    """

    terms: Sequence[str] = ()  # names of what `method_losses` returns
    arguments: Sequence[str] = ()  # of the method's constructor, kept in attributes of these names
    needs_target_logits = False
    needs_classes = False  # whether it compares classes: at least two outputs, and a softmax
    supports_maps = False
    critic_steps = 1  # of the critic per step of the other networks
    trains_on_labels = True  # whether the label loss is descended, not only logged
    trains_on_plain_inputs = False
    oracle = False  # whether the labelled part of its pairs is the target

    def __init__(
        self,
        backbone: Any = None,
        num_classes: int | None = None,
        label_head: Any = None,
        *,
        strength: float | StrengthSchedule | None = 0.1,
        implementation: str = "override",
        joint_forward: bool = True,
        augmentation: dict[str, Any] | None = None,
        regularizers: Sequence[Regularizer] | Regularizer = (),
        task_radius: float = 0.0,
        **kwargs,
    ):
        reject_foreign_names(kwargs, NAMES_OF_ADAPT)
        super().__init__(**kwargs)
        self.backbone = backbone
        inputs, features = features_of(backbone, self.supports_maps)
        self.feature_shape = tuple(features.shape)
        self.label_head = fitting_label_head(label_head, self.feature_shape, num_classes)
        # Not tracked, because its layers are already.
        classifier = keras.Model(inputs, self.label_head(features), name="classifier")
        object.__setattr__(self, "classifier", classifier)
        # A method, because Keras would save the networks with the layer instead of where they are.
        self._in_one_call = OneCall(self).__call__
        self.logits_shape: Any = keras.tree.map_structure(ops.shape, self.classifier.output)
        self.num_classes: int = 1 if isinstance(self.logits_shape, dict) else self.logits_shape[-1]
        self.reversal: Any = None
        if strength is not None:
            self.reversal = GradientReversal(
                strength, implementation=implementation, name="reversal"
            )
        self.joint_forward = joint_forward
        self.augmentation = as_layers(augmentation or {})
        self.regularizers = check_regularizers(regularizers, self.logits_shape)
        self.task_radius = check_number("task_radius", task_radius, low=0)
        if self.reversal is None and task_radius:
            raise ValueError("Argument `task_radius` needs a gradient reversal. Received: none")
        if self.num_classes == 1:
            refuse_classes(self, f"a label head of output shape {self.logits_shape}")
        for regularizer in self.regularizers:
            regularizer.join(self)
        self.regularizer_layers = [layer for one in self.regularizers for layer in one.layers]
        added = [f"{one.name}/loss" for one in self.regularizers]
        added += ["strength"] if self.reversal else []
        self.trackers = {n: keras.metrics.Mean(n) for n in ["label/loss", *self.terms, *added]}
        self.repeats_pass = False  # while a smooth step runs the pass again
        self.built = True

    def method_losses(
        self, batch: Batch, labels: Any, reversal: Callable[..., Any], training: bool
    ) -> dict[str, Any]:
        """Returns the method's terms, scalars by name.

        A term whose name ends in `/loss` is added to the label loss as it is, so it has its factor
        already; others are logged alone. A `label/loss` takes the place of the usual one.

        Args:
            batch: Features and logits of a pair.
            labels: Labels of the source, followed by those of a labelled target.
            reversal: What reverses the gradient of features, `reversal(features,
                training=training)`: `self.reversal`, or what a diagnostic puts in its place.
            training: Whether this is a training step.
        """
        return {}

    def domain_scores(self, batch: Batch, reversal: Callable[..., Any], training: bool) -> Any:
        """Returns the discriminator's logits, above 0 for the target; `None` if there is none.

        Those of the source stand before those of the target, `(2 batch, k)` of `k` discriminators.
        """
        return None

    @classmethod
    def adversary_inputs(cls, num_features: int, num_classes: int, **kwargs: Any) -> int:
        """Returns the length of the domain head's input, given other arguments of the method."""
        return num_features

    def call(self, inputs, training=False):
        if not is_pair(inputs):
            return self.label_head(self.backbone(inputs, training=training), training=training)
        if training and not self.repeats_pass:
            for regularizer in self.regularizers:
                regularizer.before_step(self)
        inputs = self.augment(inputs, training)
        return self._in_one_call(
            function=lambda: self.make_batch(
                inputs, self.extract_features(inputs, training), training
            )
        )

    def augment(self, inputs: dict, training: bool) -> dict[str, Any]:
        """Returns the pair with each part changed by its augmentation, in training only."""
        layers = self.augmentation if training else {}
        types = self.compute_dtype, self.classifier.inputs[0].dtype
        return augmented(inputs, layers, self.oracle, *types) if layers else inputs

    def extract_features(self, inputs: dict, training: bool) -> dict[str, Any]:
        """Returns the features of each part of a pair, by the same names."""
        given = self.backbone, select_parts(inputs), training
        if self.joint_forward:
            return in_one_pass(*given)
        return self._in_one_call(function=lambda: in_own_passes(*given, self.add_loss))

    def make_batch(self, inputs: dict, features: dict, training: bool) -> Batch:
        """Returns what a method sees of a pair, of which the features are known."""
        # Heads may be the user's, in half precision.
        logits: Any = keras.tree.map_structure(at_least_single, self.classify(features, training))
        return Batch(inputs, features, logits)

    def classify(self, features: dict, training: bool) -> dict[str, Any]:
        """Returns logits by part of the pair, in one pass; the target's only if needed."""
        target_too = any(one.needs_target_logits for one in (self, *self.regularizers))
        chosen = {k: v for k, v in features.items() if k != "target" or target_too}
        return in_one_pass(self.label_head, chosen, training)

    def label_loss(self, labels: Any, logits: Any, weights: Any = None) -> Any:
        """Returns the loss given to `compile`, a scalar: the mean over what the step sees."""
        check_form(labels, logits, self.loss)
        weights = weights_of_positions(weights, logits)
        loss = fitting.whole_of_replica(self._compile_loss(labels, logits, weights))
        return ops.mean(loss) if loss.shape else loss  # a loss may come by example

    def loss_terms(self, x, labels, batch: Batch, reversal=None, training=True) -> dict[str, Any]:
        """Returns all terms of the pair `x`, scalars by name; see `method_losses`. Logs nothing."""
        reversal = self.reversal if reversal is None else reversal
        terms = self.method_losses(batch, labels, reversal, training)
        if "label/loss" not in terms:
            label = self.label_loss(labels, batch.label_logits, batch.weights)
            terms = {"label/loss": label, **terms}
        for regularizer in self.regularizers:
            terms[f"{regularizer.name}/loss"] = regularizer.loss(self, x, batch)
        return terms

    def total(self, terms: dict[str, Any], others: Sequence[Any] = ()) -> Any:
        """Returns what a step descends: the weighed terms, and what layers have added."""
        weights: dict[str, float] = {f"{one.name}/loss": one.weight for one in self.regularizers}
        total = sum_losses(others)
        for name, term in terms.items():
            if name.endswith("/loss") and (self.trains_on_labels or name != "label/loss"):
                total = ops.add(total, weights[name] * term if name in weights else term)
        return total

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if not isinstance(y_pred, Batch):
            if training and (self.regularizers or not self.trains_on_plain_inputs):
                raise ValueError("Train on pairs, as `dann.data.pair` makes. Received: one domain")
            label = self.label_loss(y, y_pred, sample_weight)
            return fitting.share_of_replica(sum_losses(self.losses, label))
        others = list(self.losses)  # now, because the method may run the layers again
        if training and self.task_radius:
            terms, others = smooth_terms(self, x, y, sample_weight)
        else:
            terms = self.loss_terms(x, y, y_pred._replace(weights=sample_weight), None, training)
        for name, term in terms.items():
            self.trackers[name].update_state(term)
        if self.reversal is not None:
            self.trackers["strength"].update_state(self.reversal.strength)
        return fitting.share_of_replica(self.total(terms, others))

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        paired = isinstance(y_pred, Batch)
        logits = y_pred.label_logits if paired else y_pred
        logs = super().compute_metrics(x, y, logits, weights_of_positions(sample_weight, logits))
        # Of plain inputs the trackers did not change.
        return {name: one for name, one in logs.items() if paired or name not in self.trackers}

    def compile(self, optimizer="rmsprop", loss=None, **kwargs):
        loss = loss_of_logits(loss, self, self.logits_shape)
        for kind in ("metrics", "weighted_metrics"):
            kwargs[kind] = metrics_of_logits(kwargs.get(kind), loss)
        super().compile(optimizer=optimizer, loss=loss, **kwargs)

    def fit(self, x=None, y=None, *args, **kwargs):
        return fitting.fit_pairs(self, super().fit, x, y, *args, **kwargs)

    def evaluate(self, x=None, y=None, *args, **kwargs):
        return fitting.evaluate_pairs(self, super().evaluate, x, y, *args, **kwargs)

    def predict(self, x, *args, **kwargs):
        return fitting.predict_inputs(super().predict, x, *args, **kwargs)

    def make_train_function(self, force=False):
        fitting.build_training(self)
        return super().make_train_function(force)

    def compile_from_config(self, config):
        # Keras requires this of a class that overrides `compile`.
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def export(self, filepath, *args, **kwargs):
        # Keras asks a subclassed model for the shapes of its first call, which was on a pair.
        return self.classifier.export(filepath, *args, **kwargs)

    def get_config(self):
        own = {name: getattr(self, name) for name in (*_ARGUMENTS, *self.arguments)}
        own["augmentation"] = dict(self.augmentation)
        if self.reversal is not None:
            strength = self.reversal.schedule or self.reversal.initial_strength
            own |= {"strength": strength, "implementation": self.reversal.implementation}
        return {**super().get_config(), **serialized(own)}

    @classmethod
    def from_config(cls, config):
        return cls(**deserialized(config))

    def save_own_variables(self, store):
        super().save_own_variables(store)
        save_state(self, store)

    def load_own_variables(self, store):
        super().load_own_variables({k: store[k] for k in store.keys() if k.isdigit()})  # noqa: SIM118
        load_state(self, store)

    @property
    def strength(self) -> Any:
        """Strength of the reversal. Unless it follows a schedule, it may be set at any time."""
        return self.reversal.strength

    @strength.setter
    def strength(self, value: float):
        self.reversal.strength = value
