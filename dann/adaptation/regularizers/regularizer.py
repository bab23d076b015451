from collections.abc import Sequence
from typing import Any

from dann.adaptation.batch import Batch
from dann.checks import check_number
from dann.configured import Configured
from dann.registry import Registry

# The fact `needs`: arguments without a default, with values to try them.
REGULARIZERS: Registry[type["Regularizer"]] = Registry(saved=True)


class Regularizer(Configured):
    """A loss on the target that joins any method.

    A subclass has a `name`, under which its loss is logged as `name/loss`, and overrides `loss`. It
    names its constructor's `arguments`, and keeps them in attributes of these names.
    Random generators and counts belong into Keras layers that it lists in `layers`, so that they
    are saved with the model. Layers that depend on the model's networks it makes in `join`.

    Args:
        weight: Factor of the loss, at least 0. Defaults to `1.0`.

    Raises:
        ValueError: If `weight` or a number of a subclass is out of its range or not finite.
    """

    name = ""
    arguments = ("weight",)
    needs_target_logits = True  # whether it needs the target's logits
    needs_classes = False  # whether it compares classes: at least two outputs, and a softmax
    supports_maps = False  # whether logits may be maps `(batch, ..., num_classes)`
    layers: Sequence[Any] = ()  # what the model saves: layers, and seed generators

    def __init__(self, weight: float = 1.0):
        self.weight = check_number("weight", weight, low=0)

    def join(self, model: Any) -> None:
        """Is called once, when the networks of the model that it joins are made."""

    def before_step(self, model: Any) -> None:
        """Is called at the beginning of each training step, before the forward pass."""

    def loss(self, model: Any, x: dict[str, Any], batch: Batch) -> Any:
        """Returns the loss before it is multiplied by the weight, a scalar.

        Args:
            model: The model that trains.
            x: The pair of inputs.
            batch: What the model gave for it; `batch.logits["target"]` holds the target's logits.
        """
        raise NotImplementedError


def check_regularizers(
    regularizers: Sequence[Regularizer] | Regularizer, logits: Any = ()
) -> list[Regularizer]:
    """Returns the regularizers as a list; one alone needs no list.

    Raises:
        ValueError: If two have one name, or one does not take maps and the logits' shape is theirs.
    """
    listed = [regularizers] if isinstance(regularizers, Regularizer) else list(regularizers)
    for one in listed:
        if len(logits) > 2 and not one.supports_maps:
            raise ValueError(
                f"`{type(one).__name__}` compares whole examples: give a `label_head` that pools, "
                f"or leave it out. Received: logits of shape {tuple(logits)}"
            )
    names = [one.name for one in listed]
    if len(set(names)) < len(names):
        raise ValueError(f"Each regularizer may join once. Received: {names}")
    return listed
