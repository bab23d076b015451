from collections.abc import Sequence
from typing import Any

import keras

from dann.adaptation.forward_pass import ForwardPass
from dann.adaptation.plain_network import pooling
from dann.checks import check_number
from dann.registry import Registry

# The fact `when` of an entry says when to pick it; `needs` are arguments without a default, with
# values to try them.
REGULARIZERS: Registry[type["Regularizer"]] = Registry("regularizer")


class Regularizer:
    """A loss on the target that joins any method.

    A subclass has a `name`, under which its loss is logged as `name/loss`, and overrides `loss`.
    Random generators and counts belong into Keras layers that it lists in `layers`, so that they
    are saved with the model. Layers that depend on the model's networks it makes in `join`.

    Args:
        weight: Factor of the loss, at least 0. Defaults to `1.0`.

    Raises:
        ValueError: If `weight` or a number of a subclass is out of its range or not finite.
    """

    name = ""
    classifies_target = True  # whether it needs the target's logits
    of_classes = False  # whether it compares classes, so that it needs at least two outputs
    takes_maps = False  # whether logits may be maps `(batch, ..., num_classes)`
    layers: Sequence[keras.layers.Layer] = ()  # saved with the model

    def __init__(self, weight: float = 1.0):
        self.weight = check_number("weight", weight, low=0)

    def join(self, model: Any) -> None:
        """Is called once, as soon as the networks of the model that it joins are known."""

    def before_step(self, model: Any) -> None:
        """Is called at the beginning of each training step, before the forward pass."""

    def loss(self, model: Any, x: dict[str, Any], forward: ForwardPass) -> Any:
        """Returns the loss before it is multiplied by the weight, a scalar.

        Args:
            model: The model that trains.
            x: The pair of inputs.
            forward: The model's forward pass on it; `forward.logits["target"]` holds the target's
                logits.
        """
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {"weight": self.weight}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Regularizer":
        """Makes the regularizer from what `get_config` returned."""
        return cls(**config)


def check_regularizers(regularizers: Sequence[Regularizer]) -> list[Regularizer]:
    """Returns the regularizers as a list; one alone needs no list.

    Raises:
        TypeError: If one has another type.
        ValueError: If two have one name.
    """
    if isinstance(regularizers, Regularizer):
        regularizers = [regularizers]
    regularizers = list(regularizers)
    for regularizer in regularizers:
        if not isinstance(regularizer, Regularizer):
            raise TypeError(
                "Argument `regularizers` must hold objects of `dann.adaptation.Regularizer`. "
                f"Received: {regularizer!r}"
            )
    names = [regularizer.name for regularizer in regularizers]
    if len(set(names)) < len(names):
        raise ValueError(f"Each regularizer may join once. Received: {names}")
    return regularizers


def check_logits_of(regularizer: Regularizer, logits: Any) -> None:
    """Raises `ValueError` if logits are maps and the regularizer takes none."""
    if len(logits.shape) > 2 and not regularizer.takes_maps:
        raise ValueError(
            f"`{type(regularizer).__name__}` compares whole examples: give a `label_head` that "
            f"pools, such as `keras.Sequential([keras.layers.{pooling(logits.shape)}, "
            f"keras.layers.Dense({logits.shape[-1]})])`, or leave it out. Received: logits of "
            f"shape {tuple(logits.shape)}"
        )
