from collections.abc import Callable, Sequence
from typing import Any

from dann.adaptation.batch import Batch
from dann.checks import check_number
from dann.config_mixin import ConfigMixin
from dann.registry import Registry

# Metadata: `example_arguments` are values of the required arguments, for tests and documentation.
REGULARIZERS: Registry[type["Regularizer"]] = Registry(register_with_keras=True)


class Regularizer(ConfigMixin):
    """A loss on the target that can be added to any method.

    A subclass sets `name`, lists the names of its constructor arguments in `arguments`, stores the
    arguments in attributes of the same names, and overrides `losses`. Put random generators and
    counters in Keras layers and list these in `layers`, so that they are saved with the model.
    Create layers that depend on the networks of the model in `attach`.

    Args:
        weight: Factor of the loss, at least 0. Defaults to `1.0`.

    Raises:
        ValueError: If `weight` or a number of a subclass is out of range or not finite.

    Example:

    >>> import dann, keras
    >>> class MeanSquare(dann.Regularizer):
    ...     name = "mean_square"
    ...
    ...     def losses(self, model, batch, reversal, training):
    ...         square = keras.ops.square(batch.logits["target"])
    ...         return {"mean_square/loss": keras.ops.mean(square)}
    >>> backbone = dann.networks.mlp_backbone((2,))
    >>> model = dann.DANN(backbone, num_classes=3, regularizers=[MeanSquare(weight=0.1)])
    """

    name = ""
    arguments = ("weight",)
    needs_target_logits = True  # whether the loss reads the target's logits
    needs_classes = False  # whether the loss compares classes, with a softmax over the logits
    supports_maps = False  # whether logits may be maps `(batch, ..., num_classes)`
    layers: Sequence[Any] = ()  # layers and seed generators that the model saves

    def __init__(self, weight: float = 1.0):
        self.weight = check_number("weight", weight, low=0)

    def attach(self, model: Any) -> None:
        """Creates layers that depend on the model; called once, after its networks exist."""

    def before_step(self, model: Any) -> None:
        """Runs at the beginning of each training step, before the forward pass."""

    def losses(
        self, model: Any, batch: Batch, reversal: Callable[..., Any], training: bool
    ) -> dict[str, Any]:
        """Returns the loss before its weight, a dict of the scalar `"<name>/loss"`.

        Args:
            model: The model that trains.
            batch: The batch; `batch.logits["target"]` are the logits of the target.
            reversal: Gradient reversal of the model; see `AdversarialModel.method_losses`.
            training: Whether this is a training step.
        """
        raise NotImplementedError


def check_regularizers(
    regularizers: Sequence[Regularizer] | Regularizer, shape: Any = ()
) -> list[Regularizer]:
    """Returns the regularizers as a list; a single regularizer needs no list.

    Args:
        regularizers: The regularizers.
        shape: Shape of the logits.

    Raises:
        TypeError: If an object is not a regularizer.
        ValueError: If two regularizers have the same name, or if the logits are maps and a
            regularizer does not support maps.
    """
    is_single = isinstance(regularizers, Regularizer | str | type)
    regularizers = [regularizers] if is_single else list(regularizers)
    for regularizer in regularizers:
        if not isinstance(regularizer, Regularizer):
            raise TypeError(f"Expected objects such as `dann.MCC()`. Received: {regularizer!r}")
        if len(shape) > 2 and not regularizer.supports_maps:
            raise ValueError(
                f"Expected logits `(batch, num_classes)`, because `{type(regularizer).__name__}` "
                f"compares whole examples. Received: logits of shape {tuple(shape)}. Pass a "
                "`label_head` that pools, or remove the regularizer."
            )
    names = [regularizer.name for regularizer in regularizers]
    if len(set(names)) < len(names):
        raise ValueError(f"Expected regularizers with distinct names. Received: {names}.")
    return regularizers
