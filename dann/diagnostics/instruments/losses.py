"""The losses of a step, each alone: as training computes them, or as functions of the weights.

`data` is a pair of inputs `x` with labels `y`, `features` are those of each part of the pair (see
`features_of`), and `training` says whether the layers work as in a training step.
"""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from dann.adaptation import AdversarialModel
from dann.adaptation.batch import Batch, added
from dann.adaptation.smooth_task import frozen


def check_adversarial(model: Any, compiled: bool = True) -> AdversarialModel:
    """Returns the model if it is one of `dann.adaptation`, and compiled.

    Raises:
        TypeError: If it is another model.
        ValueError: If it was not compiled and so has no loss.
    """
    if not isinstance(model, AdversarialModel):
        raise TypeError(
            "This diagnostic needs the parts of a `dann.adaptation.AdversarialModel`: a backbone, "
            f"a label head, an adversary. Received: {type(model).__name__}"
        )
    if compiled and not model.compiled:
        raise ValueError("Compile the model first, to give it a loss. Received: no loss")
    return model


class DataError(ValueError):
    """A diagnostic fits the model but not the data, such as labels that are not classes."""


def check_flat(model: AdversarialModel) -> None:
    """Raises a `DataError` if the features of a model are maps `(batch, ..., num_features)`."""
    if len(model.feature_shape) > 2:
        raise DataError(
            "This diagnostic compares examples by flat features `(batch, num_features)`. "
            f"Received: features of shape {model.feature_shape}"
        )


def trains_backbone(model: AdversarialModel) -> bool:
    """Returns whether to run a model as in training to give its backbone gradients.

    A model that trains its critic more often than its backbone (`WDGRL`) gives the backbone none on
    most training steps, but always some outside training.
    """
    return model.critic_steps == 1


def features_of(model: AdversarialModel, x: dict, training: bool) -> dict[str, Any]:
    """Returns the features of each part of a pair, augmented in training."""
    return model.extract(model.augment(x, training), training)


def loss_terms(
    model: AdversarialModel,
    data: tuple,
    features: dict,
    training: bool,
    reversal: Callable[..., Any] | None = None,
) -> tuple[Any, Any]:
    """Returns the label loss and the adversarial loss of a pair by a compiled model, scalars.

    `reversal` runs in place of the model's own; see `AdversarialModel.loss_terms`. The label loss
    includes what layers have added.
    """
    x, y = data
    batch = model.batch_of(x, features, training)
    layers = list(model.losses)
    terms = model.loss_terms(x, y, batch, reversal, training)
    label = added(layers, terms.pop("label/loss"))
    names = [name for name in model.terms if name.endswith("/loss") and "label" not in name]
    return label, sum((terms[name] for name in names), ops.zeros(()))


def weights_of_task(model: AdversarialModel) -> list[keras.Variable]:
    """Returns the trainable weights of the backbone and then of the label head."""
    return [*model.backbone.trainable_variables, *model.label_head.trainable_variables]


def at_weights(
    model: AdversarialModel, variables: Sequence[keras.Variable], loss: Callable[[], Any]
) -> Callable[..., Any]:
    """Returns `loss` as a function of the values of `variables`, in order.

    The model's state stays as it is. Random layers draw the same numbers at every call, so it is
    one function.
    """

    def of_values(*values):
        with frozen(model, list(zip(variables, values, strict=True))):
            return loss()

    return of_values


def task_loss(model: AdversarialModel, batch: Batch, x: dict, y: Any, training: bool) -> Any:
    """Returns the label loss plus those of the regularizers, a scalar.

    It includes losses of the layers' weights, such as a `kernel_regularizer`, and leaves out those
    of their outputs. For a model that is not compiled the loss is cross-entropy.
    """
    layers = added(model.losses)
    if model.compiled:
        reversal = model.reversal or (lambda features, training: features)
        terms = model.method_losses(batch, y, reversal, training)
        label = terms.get("label/loss")
        label = model.label_loss(y, batch.label_logits) if label is None else label
    else:
        label = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(y, batch.label_logits)
    label = label + layers
    regularizing = [one.weight * one.loss(model, x, batch) for one in model.regularizers]
    return label + sum(regularizing, 0.0)
