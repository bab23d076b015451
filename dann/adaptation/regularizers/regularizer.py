from collections.abc import Sequence
from typing import Any

import keras

from dann.adaptation.forward_pass import ForwardPass
from dann.checks import check_number


class Regularizer:
    """A loss on the target that joins any method.

    A subclass has a `name`, under which its loss is logged as `name/loss`, and overrides `loss`. Of
    what it draws at random or counts, the state is in Keras layers that it names in `layers`, and
    so is saved with the model.

    Args:
        weight: Factor of the loss, at least 0. Defaults to `1.0`.

    Raises:
        ValueError: If `weight` is negative or not finite.
    """

    name = ""
    classifies_target = True  # whether it needs `forward.logits["target"]`
    of_classes = False  # whether it says nothing where the label head has one output
    layers: Sequence[keras.layers.Layer] = ()  # which the model keeps

    def __init__(self, weight: float = 1.0):
        self.weight = check_number("weight", weight, low=0)

    def loss(self, model: Any, x: dict[str, Any], forward: ForwardPass) -> Any:
        """Returns the loss before it is weighed, a scalar.

        Args:
            model: The model that trains.
            x: The pair of inputs.
            forward: The model's pass on it; `forward.logits["target"]` are the target's logits.
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
    """Returns them as a list; refuses what is none, and two of one name."""
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
        raise ValueError(f"Each regularizer joins once. Received: {names}")
    return regularizers
