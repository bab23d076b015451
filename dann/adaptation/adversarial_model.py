import itertools
from typing import Any

import keras
from keras import ops

from dann.layers import GradientReversal
from dann.networks import label_head as build_label_head
from dann.schedules import StrengthSchedule

PASSES = ("joint", "separate")


class AdversarialModel(keras.Model):
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
    which names the terms that are added to the label loss.

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
        augmentation: Keras layers, one or a list, under `"source"` and `"target"`; either may be
            missing. They change the images of that domain in training alone and are no part of
            `classifier`. Defaults to `None`.

    Raises:
        ValueError: If the parts do not fit each other, or `passes` or a domain is unknown.
    """

    oracle = False  # whether what it takes for the source is the labelled target

    def __init__(
        self,
        backbone: keras.Model,
        num_classes: int | None = None,
        label_head: keras.Model | None = None,
        strength: float | StrengthSchedule | None = 1.0,
        way: str = "override",
        passes: str = "joint",
        augmentation: dict[str, Any] | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if passes not in PASSES:
            raise ValueError(f"Argument `passes` must be one of {PASSES}. Received: {passes!r}")
        self.passes = passes
        self.augmentation = _as_layers(augmentation or {})
        self.backbone = backbone
        self.num_features = _flat_features(backbone)
        self.label_head = self._fitting_label_head(label_head, num_classes)
        self.num_classes = self.label_head.output_shape[-1]
        logits = self.label_head(backbone.output)
        self.classifier = keras.Model(backbone.input, logits, name="classifier")
        self.reversal = None
        self.trackers = {"label/loss": keras.metrics.Mean(name="label/loss")}
        if strength is not None:
            self.reversal = GradientReversal(strength, way=way, name="reversal")
            self.trackers["strength"] = keras.metrics.Mean(name="strength")
        self.built = True

    def _fitting_label_head(self, label_head, num_classes):
        if label_head is None:
            if num_classes is None:
                raise ValueError("Give `num_classes` or a `label_head`. Received: neither")
            return build_label_head(self.num_features, num_classes)
        if label_head.input_shape[-1] != self.num_features:
            raise ValueError(
                f"The label head must take the backbone's {self.num_features} features. "
                f"Received: a head for {label_head.input_shape[-1]}"
            )
        if num_classes not in (None, label_head.output_shape[-1]):
            raise ValueError(
                f"`num_classes={num_classes}` and the label head must agree. "
                f"Received: a head with {label_head.output_shape[-1]} outputs"
            )
        return label_head

    def compile(self, optimizer="rmsprop", loss=None, **kwargs):
        if loss is None:
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        super().compile(optimizer=optimizer, loss=loss, **kwargs)

    def compile_from_config(self, config):
        # Keras leaves this to whoever overrides `compile`.
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def call(self, inputs, training=False):
        if not is_pair(inputs):
            return self.classifier(inputs, training=training)
        features = self.extract(self.augment(inputs, training), training)
        source, labelled = features["source"], features["source"]
        if "target_labelled" in features:
            labelled = ops.concatenate([source, features["target_labelled"]])
        label = self.label_head(labelled, training=training)
        of_source = label[: ops.shape(source)[0]]
        return {"label": label, **self.adversary(source, features["target"], of_source, training)}

    def augment(self, inputs: dict, training: bool) -> dict[str, Any]:
        """Returns the inputs of each domain as its augmentation changes them in training."""
        if not (training and self.augmentation):
            return inputs
        changed = {}
        for name, images in inputs.items():
            of_source = name == "source" and not self.oracle
            layer = self.augmentation.get("source" if of_source else "target")
            images = ops.cast(images, self.compute_dtype)
            changed[name] = images if layer is None else layer(images, training=True)
        return changed

    def extract(self, inputs: dict, training: bool) -> dict[str, Any]:
        """Returns the features of every part of a pair, by the same names."""
        names = sorted(inputs)  # source, target, target_labelled
        if self.passes == "separate":
            return {name: self.backbone(inputs[name], training=training) for name in names}
        features = self.backbone(ops.concatenate([inputs[n] for n in names]), training=training)
        ends = list(itertools.accumulate(ops.shape(inputs[name])[0] for name in names))
        return {
            name: features[start:end]
            for name, start, end in zip(names, [0, *ends], ends, strict=False)
        }

    def adversary(self, source: Any, target: Any, label: Any, training: bool) -> dict[str, Any]:
        """Runs the networks that the method adds.

        Args:
            source: Source features `(batch, num_features)`.
            target: Target features `(batch, num_features)`.
            label: Logits of the source `(batch, num_classes)`.
            training: Whether this is a training step.

        Returns:
            Outputs by name, which `adversarial_losses` gets.
        """
        return {}

    def adversarial_losses(self, y: Any, outputs: dict[str, Any]) -> dict[str, Any]:
        """Returns the terms that are added to the label loss, scalars by name.

        Args:
            y: Source labels, and after them those of the labelled target if there is one.
            outputs: What `call` returned for a pair.
        """
        return {}

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if not isinstance(y_pred, dict):
            if training:
                self._accept_plain_training()
            return super().compute_loss(x, y, y_pred, sample_weight, training=training)
        label_loss = super().compute_loss(x, y, y_pred["label"], sample_weight, training=training)
        self.trackers["label/loss"].update_state(label_loss)
        if self.reversal is not None:
            self.trackers["strength"].update_state(self.reversal.strength)
        return label_loss + sum(self.adversarial_losses(y, y_pred).values())

    def _accept_plain_training(self):
        raise ValueError(
            f"`{type(self).__name__}` trains on pairs ({{'source': ..., 'target': ...}}, labels); "
            "`dann.data.pair` makes them. Received: inputs of one domain"
        )

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        paired = isinstance(y_pred, dict)
        label = y_pred["label"] if paired else y_pred
        logs = super().compute_metrics(x, y, label, sample_weight=sample_weight)
        if paired:
            return logs
        # What only pairs can tell stands still here; a stale number would mislead.
        return {name: value for name, value in logs.items() if name not in self.trackers}

    def get_config(self):
        config = {
            "backbone": self.backbone,
            "label_head": self.label_head,
            "passes": self.passes,
            "augmentation": dict(self.augmentation),
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
            if isinstance(value, dict) and key != "dtype"
        }
        return cls(**{**config, **parts})


def is_pair(inputs: Any) -> bool:
    """Whether `inputs` hold both domains."""
    return isinstance(inputs, dict) and {"source", "target"} <= set(inputs)


def _as_layers(augmentation):
    unknown = set(augmentation) - {"source", "target"}
    if unknown:
        raise ValueError(
            "Argument `augmentation` must have layers under 'source' and 'target'. "
            f"Received: {sorted(unknown)}"
        )
    return {
        domain: keras.Sequential(layers, name=f"{domain}_augmentation")
        if isinstance(layers, list | tuple)
        else layers
        for domain, layers in augmentation.items()
    }


def _flat_features(backbone):
    shape = backbone.output_shape if backbone.built else None
    if shape is None or len(shape) != 2 or shape[-1] is None:
        raise ValueError(
            "The backbone must be built and end in flat features of fixed length "
            "`(batch, num_features)`; a `Flatten` or `GlobalAveragePooling2D` layer makes them. "
            f"Received: output shape {shape}"
        )
    return shape[-1]
