from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from dann.adaptation.augmentation import augment_pair, make_layers
from dann.adaptation.batch import (
    Batch,
    expand_sample_weights,
    is_pair,
    run_jointly,
    run_separately,
    select_parts,
    sum_losses,
    upcast_half,
)
from dann.adaptation.labels import check_label_format, require_exclusive_classes
from dann.adaptation.networks import ADAPT_SYNONYMS, TrackedCall, make_label_head, trace_features
from dann.adaptation.options import DEFAULT_STRENGTH, reject_unknown_options
from dann.adaptation.pair_model import PairModel
from dann.adaptation.regularizers.regularizer import Regularizer, check_regularizers
from dann.adaptation.replicas import divide_by_replicas, multiply_by_replicas
from dann.adaptation.smooth_task import compute_smooth_terms
from dann.checks import check_number
from dann.gradients.reversal import reject_synonyms
from dann.layers import GradientReversal
from dann.registry import Registry
from dann.schedules import StrengthSchedule

# Methods by name. Metadata: `arguments` are the defaults of a variant of the class;
# `example_arguments` are values of the required arguments, for tests and documentation.
METHODS: Registry[type] = Registry(register_with_keras=True)


class AdversarialModel(PairModel):
    """Base class of the methods: a classifier of labeled source data and unlabeled target data.

    `fit` accepts pairs `({"source": inputs, "target": inputs}, source_labels)`, such as the batches
    of `dann.data.pair`. `model(inputs)`, `predict` and `evaluate` accept inputs and return logits
    `(batch, num_classes)`. `model.classifier` is the plain network and shares the weights.

    Without a `loss`, `compile` uses sparse categorical cross-entropy from logits. In training the
    logs contain `label/loss`, `strength`, and the terms of the method and of the regularizers.
    `loss` includes losses that layers add, except for layers in the method's own networks.

    Pairs may have a third part, `"target_labeled"`: a few target inputs with labels. These labels
    follow the source labels, and the label loss covers both.

    To write a method, derive a class from this one. Create the networks of the method in the
    constructor, from `self.feature_shape` and `self.num_classes`, set `terms` and `arguments`, and
    override `method_losses`.

    Args:
        backbone: A built Keras model or layer from one or several inputs to features `(batch,
            num_features)`. Some methods also accept maps `(batch, ..., num_features)`.
        num_classes: Number of classes. Required without a `label_head`.
        label_head: A Keras model or layer from features to logits. Defaults to
            `dann.networks.label_head`; for maps, to a single layer that classifies each position.
        strength: Strength of the gradient reversal: a number of at least 0, a schedule of
            `dann.schedules`, or `None` for a method without a reversal. Defaults to `0.1`, the
            final strength in the training script.
        implementation: Implementation of the reversal; see `dann.layers.GradientReversal`. Defaults
            to `"override"`.
        joint_forward: Whether the backbone runs once on both domains together, so that its batch
            normalization uses joint statistics. With `False`, the backbone runs on each domain
            separately, losses that layers add are weighted by the sizes of the domains, and
            training rejects batch normalization that is not frozen. Defaults to `True`.
        augmentation: Keras layers that change the training inputs: a dict with a layer or a list of
            layers for the keys `"source"` and `"target"`. The key `"blend"` may contain a layer
            from `[source, target]` to the source, such as `dann.layers.DomainBlend`. Defaults to
            none.
        regularizers: One or several objects of `dann.adaptation.Regularizer`. Defaults to none.
        task_radius: Radius of smooth training (SDAT), such as 0.05; see
            `dann.adaptation.smooth_task`. Defaults to `0.0`, which turns it off.
        **kwargs: `name`, `dtype` and `trainable` of `keras.Model`.

    Raises:
        TypeError: If a network is not a Keras model or layer, or an argument is unknown.
        ValueError: If the networks do not fit each other, or a number is out of range.
    """

    terms: Sequence[str] = ()  # names of the values that `method_losses` returns
    needs_target_logits = False  # whether the method reads the target's logits
    needs_classes = False  # whether the method compares classes, with a softmax over the logits
    supports_maps = False  # whether features may be maps

    def __init__(
        self,
        backbone: Any,
        num_classes: int | None = None,
        label_head: Any = None,
        *,
        strength: float | StrengthSchedule | None = DEFAULT_STRENGTH,
        implementation: str = "override",
        joint_forward: bool = True,
        augmentation: dict[str, Any] | None = None,
        regularizers: Sequence[Regularizer] | Regularizer = (),
        task_radius: float = 0.0,
        **kwargs: Any,
    ):
        reject_synonyms(kwargs, ADAPT_SYNONYMS)
        reject_unknown_options(type(self).__name__, kwargs, self.arguments)
        super().__init__(**kwargs)
        self.backbone = backbone
        inputs, features = trace_features(backbone, self.supports_maps)
        self.feature_shape = tuple(features.shape)
        self.label_head = make_label_head(label_head, self.feature_shape, num_classes)
        # Hidden from Keras, which already tracks the layers of this model.
        classifier = keras.Model(inputs, self.label_head(features), name="classifier")
        object.__setattr__(self, "classifier", classifier)
        # The bound method hides the layer from Keras, which would save the networks within it.
        self._run_tracked = TrackedCall(self).__call__
        self.logits_shape: Any = keras.tree.map_structure(ops.shape, self.classifier.output)
        self.num_classes: int = 1 if isinstance(self.logits_shape, dict) else self.logits_shape[-1]
        self.reversal: Any = None
        if strength is not None or self.terms:
            value: Any = strength  # the layer refuses `None`
            self.reversal = GradientReversal(value, implementation, name="reversal")
        self.joint_forward = joint_forward
        self.augmentation = make_layers(augmentation or {})
        self.regularizers = check_regularizers(regularizers, self.logits_shape)
        self.task_radius = check_number("task_radius", task_radius, low=0)
        if self.num_classes == 1:
            require_exclusive_classes(self, f"a label head of output shape {self.logits_shape}")
        for regularizer in self.regularizers:
            regularizer.attach(self)
        self.regularizer_layers = [layer for term in self.regularizers for layer in term.layers]
        names = ["label/loss", *self.terms, *(f"{term.name}/loss" for term in self.regularizers)]
        names += ["strength"] if self.reversal else []
        self.trackers = {name: keras.metrics.Mean(name) for name in names}
        self.is_second_pass = False  # while a smooth step repeats the forward pass
        self.built = True

    def method_losses(
        self, batch: Batch, reversal: Callable[..., Any], training: bool
    ) -> dict[str, Any]:
        """Returns the terms of the method, a dict of scalars.

        Terms whose names end in `/loss` are added to the label loss, so they include their factor.
        Other terms are only logged. A term `"label/loss"` replaces the default label loss.

        Args:
            batch: The batch.
            reversal: Function that reverses the gradient of features, called as
                `reversal(features, training=training)`. It is `self.reversal`, or a replacement
                that a diagnostic passes.
            training: Whether this is a training step.
        """
        return {}

    def domain_scores(self, batch: Batch, reversal: Callable[..., Any], training: bool) -> Any:
        """Returns the logits of `k` discriminators, above 0 for the target, or `None`.

        The shape is `(2 batch, k)`: the rows of the source, then the rows of the target.
        """
        return None

    def call(self, inputs, training=False):
        if is_pair(inputs):
            return self.run_parts(inputs, training)
        return self.label_head(self.backbone(inputs, training=training), training=training)

    def run_parts(self, parts: dict[str, Any], training: bool) -> Batch:
        """Runs the networks on the parts of a pair, or on a dict with only `"source"`."""
        if training and not self.is_second_pass:
            for regularizer in self.regularizers:
                regularizer.before_step(self)
        inputs = self.augment(parts, training)
        batch = self._run_tracked(
            function=lambda: self.make_batch(
                inputs, self.extract_features(inputs, training), training
            )
        )
        if "target" not in parts:
            # With a single domain, the same examples serve as source and target.
            values = (batch.inputs, batch.features, batch.logits, parts)
            return Batch(*({**value, "target": value["source"]} for value in values))
        return batch._replace(raw_inputs=parts)

    def augment(self, inputs: dict, training: bool) -> dict[str, Any]:
        """Returns the pair with each part augmented in training, else unchanged."""
        layers = self.augmentation_layers() if training else {}
        dtypes = self.compute_dtype, self.classifier.inputs[0].dtype
        return augment_pair(inputs, layers, *dtypes) if layers else inputs

    def augmentation_layers(self) -> dict[str, Any]:
        """Returns the augmentation layers by part of a pair, and under `"blend"`."""
        return self.augmentation

    def extract_features(self, inputs: dict, training: bool) -> dict[str, Any]:
        """Returns the features of each part of a pair under the same names."""
        parts = select_parts(inputs)
        if self.joint_forward:
            return run_jointly(self.backbone, parts, training)
        return self._run_tracked(
            function=lambda: run_separately(self.backbone, parts, training, self.add_loss)
        )

    def make_batch(self, inputs: dict, features: dict, training: bool) -> Batch:
        """Returns the batch of a pair and its features, without labels."""
        # A user's head may compute in half precision.
        logits: Any = keras.tree.map_structure(upcast_half, self.classify(features, training))
        return Batch(inputs, features, logits)

    def classify(self, features: dict, training: bool) -> dict[str, Any]:
        """Returns the logits of each part, from one pass; skips the target if no loss reads it."""
        uses_target = any(term.needs_target_logits for term in (self, *self.regularizers))
        parts = {name: x for name, x in features.items() if name != "target" or uses_target}
        return run_jointly(self.label_head, parts, training)

    def prepare_labels(self, labels: Any, weights: Any, for_loss: bool) -> tuple[Any, Any]:
        """Returns labels and sample weights for the loss or the metrics of `compile`.

        Args:
            labels: Labels from `fit` or `evaluate`.
            weights: Sample weights or `None`.
            for_loss: `True` for the loss, which is a mean over the batch; `False` for the metrics.
        """
        return labels, weights

    def label_loss(self, labels: Any, logits: Any, weights: Any = None) -> Any:
        """Returns the compiled loss, a scalar: the mean over all examples of the step."""
        labels, weights = self.prepare_labels(labels, weights, for_loss=True)
        check_label_format(labels, logits, self.loss)
        weights = expand_sample_weights(weights, logits)
        loss = multiply_by_replicas(self._compile_loss(labels, logits, weights))
        return ops.mean(loss) if loss.shape else loss  # a custom loss may return one per example

    def loss_terms(
        self, batch: Batch, reversal: Any = None, training: bool = True
    ) -> dict[str, Any]:
        """Returns all terms of a batch with labels, a dict of scalars; see `method_losses`."""
        reversal = self.reversal if reversal is None else reversal
        terms = self.method_losses(batch, reversal, training)
        if "label/loss" not in terms:
            label_loss = self.label_loss(batch.labels, batch.label_logits, batch.weights)
            terms = {"label/loss": label_loss, **terms}
        for regularizer in self.regularizers:
            terms |= regularizer.losses(self, batch, reversal, training)
        return terms

    def total_loss(self, terms: dict[str, Any], layer_losses: Sequence[Any] = ()) -> Any:
        """Returns the loss that a step descends: the weighted terms and the losses of layers."""
        weights: dict[str, float] = {f"{term.name}/loss": term.weight for term in self.regularizers}
        total = sum_losses(layer_losses)
        for name, term in terms.items():
            if name.endswith("/loss"):
                total = ops.add(total, weights[name] * term if name in weights else term)
        return total

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if not isinstance(y_pred, Batch):
            if training:
                raise ValueError(
                    "Expected pairs of source and target. Received: one domain. Use "
                    "`dann.data.pair((inputs, labels), target_inputs)`."
                )
            label_loss = self.label_loss(y, y_pred, sample_weight)
            return divide_by_replicas(sum_losses(self.losses, label_loss))
        # A copy, because a second pass through the layers would clear the losses.
        layer_losses = list(self.losses)
        if training and self.task_radius:
            terms, layer_losses = compute_smooth_terms(self, x, y, sample_weight)
        else:
            terms = self.loss_terms(
                y_pred._replace(labels=y, weights=sample_weight), None, training
            )
        for name, term in terms.items():
            self.trackers[name].update_state(term)
        if self.reversal is not None:
            self.trackers["strength"].update_state(self.reversal.strength)
        return divide_by_replicas(self.total_loss(terms, layer_losses))

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        has_terms = isinstance(y_pred, Batch)
        logits = y_pred.label_logits if has_terms else y_pred
        labels, weights = self.prepare_labels(y, sample_weight, for_loss=False)
        weights = expand_sample_weights(weights, logits)
        logs = super().compute_metrics(x, labels, logits, weights)
        # Plain inputs do not update the trackers.
        return {key: log for key, log in logs.items() if has_terms or key not in self.trackers}

    @property
    def strength(self) -> Any:
        """Strength of the reversal. May be set at any time unless it follows a schedule."""
        return self._get_reversal().strength

    @strength.setter
    def strength(self, value: float):
        self._get_reversal().strength = value

    def _get_reversal(self):
        if self.reversal is None:
            name = type(self).__name__
            raise AttributeError(
                f"`{name}` has no `strength`, because it has no gradient reversal."
            )
        return self.reversal
