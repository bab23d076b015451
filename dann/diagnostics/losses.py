"""The losses of a step as functions of the weights alone, with no reversal in them."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from dann.adaptation import AdversarialModel
from dann.adaptation.forward_pass import labelled_parts
from dann.diagnostics.modes import unchanged


def weights_of_task(model: AdversarialModel) -> list[keras.Variable]:
    """Returns the trainable weights of the backbone and then of the label head."""
    return [*model.backbone.trainable_variables, *model.label_head.trainable_variables]


def at_weights(
    model: AdversarialModel,
    variables: Sequence[keras.Variable],
    loss: Callable[[], Any],
) -> Callable[..., Any]:
    """Returns `loss` as a function of the values of `variables`, in order.

    The model's state stays as it is. Random layers draw the same numbers at every call, so that
    what is differentiated is one function.
    """

    def of_values(*values):
        with unchanged(model, list(zip(variables, values, strict=True))):
            return loss()

    return of_values


def task_loss(model: AdversarialModel, features: dict, x: dict, y: Any, training: bool) -> Any:
    """Returns the label loss and those of the regularizers, a scalar.

    Those of the layers' weights, such as a `kernel_regularizer`, belong to it, those of their
    outputs do not.

    Args:
        model: The model; without a compiled loss it has that of classes.
        features: Features by part of the pair.
        x: The pair of inputs.
        y: Labels.
        training: Whether the layers work as in a training step.
    """
    logits = model.classify(features, training)
    outputs = {f"{name}/logits": part for name, part in logits.items()}
    outputs["label"] = labelled_parts(logits)
    if model.compiled:
        loss = model.label_loss(x, y, outputs, training=training)
    else:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(y, outputs["label"])
        loss += sum(model.losses)
    return loss + model.regularization(x, outputs)


def domain_loss(model: Any, features: dict, training: bool) -> Any:
    """Returns the domain loss of a `dann.DANN`, a scalar, as its discriminator sees the features.

    With it come the losses of regularizers of the discriminator's weights.

    Args:
        model: The model.
        features: Features by part of the pair.
        training: Whether the layers work as in a training step.
    """
    source, target = features["source"], features["target"]
    domain = ops.concatenate([ops.zeros_like(source[:, :1]), ops.ones_like(target[:, :1])])
    logits = model.domain_head(ops.concatenate([source, target]), training=training)
    labels = model.smoothed(domain)
    loss = ops.mean(ops.binary_crossentropy(labels, ops.cast(logits, "float32"), from_logits=True))
    return loss + sum(model.domain_head.losses)
