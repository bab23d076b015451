"""The terms of an adversarial model's loss, as a training step computes them."""

from collections.abc import Callable
from typing import Any

from keras import ops

from dann.adaptation import AdversarialModel
from dann.diagnostics.taps import replaced


def check_adversarial(model: Any, compiled: bool = True) -> AdversarialModel:
    """Returns the model if it is one of `dann.adaptation`, and compiled.

    Raises:
        TypeError: If it is another model.
        ValueError: If it was not compiled, so that it has no loss.
    """
    if not isinstance(model, AdversarialModel):
        raise TypeError(
            "This diagnostic needs the parts of a `dann.adaptation.AdversarialModel`: a backbone, "
            f"a label head, an adversary. Received: {type(model).__name__}"
        )
    if compiled and not model.compiled:
        raise ValueError("Compile the model first: its loss is measured. Received: no loss")
    return model


def trains_backbone(model: AdversarialModel) -> bool:
    """Whether to run as in training.

    A model that trains its critic more often than its backbone (`WDGRL`) holds the backbone's
    gradient back on most training steps, and does not outside of them.
    """
    return getattr(model, "critic_steps", 1) == 1


def loss_terms(
    model: AdversarialModel,
    data: tuple,
    on_features: Callable[[dict], dict] = lambda features: features,
) -> tuple[Any, Any]:
    """Runs the model on a batch and returns its label loss and its adversarial loss, scalars.

    Args:
        model: The model, compiled.
        data: A pair of inputs, and labels.
        on_features: What becomes of the features of each domain before they go on.
    """
    x, y = data
    training = trains_backbone(model)
    extract = model.extract

    def extracted(inputs, training):
        return on_features(extract(inputs, training))

    with replaced([(model, "extract", extracted)]):
        outputs = model(x, training=training)
    # First, because methods may weigh the domains by what it finds.
    label = model.label_loss(x, y, outputs, training=training)
    terms = model.adversarial_losses(x, y, outputs).values()
    return label, sum(terms, ops.zeros(()))
