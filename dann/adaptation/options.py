"""Constructor options that the methods share."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from dann.adaptation.regularizers.regularizer import Regularizer
from dann.checks import did_you_mean

DEFAULT_STRENGTH = 0.1  # `DANN` explains the value


class NetworkOptions(TypedDict, total=False):
    """Options of every method; see `AdversarialModel`.

    `name`, `dtype` and `trainable` are options of `keras.Model`.
    """

    joint_forward: bool
    augmentation: dict[str, Any] | None
    regularizers: Sequence[Regularizer] | Regularizer
    name: str | None
    dtype: Any
    trainable: bool


class ReversalOptions(NetworkOptions, total=False):
    """Options of a method with a gradient reversal."""

    implementation: str
    task_radius: float


def reject_reversal_options(name: str, options: Mapping[str, Any]) -> None:
    """Raises a `TypeError` for options of a gradient reversal, for a method without a reversal."""
    # The config of a saved model contains a `task_radius` of 0.
    received = [
        f"{key}={value}"
        for key, value in options.items()
        if key in ("strength", "implementation") or (key == "task_radius" and value)
    ]
    if received:
        raise TypeError(
            f"Expected no options of a gradient reversal, because `{name}` has no reversal. "
            f"Received: {', '.join(received)}. Remove them, or use a method such as `DANN`."
        )


def reject_unknown_options(name: str, options: Mapping[str, Any], arguments: Sequence[str]) -> None:
    """Raises a `TypeError` for options that a method does not have.

    Args:
        name: Class name of the method, for the message.
        options: Options for `keras.Model`, which may be `name`, `dtype` and `trainable`.
        arguments: Names of the method's own arguments, which the message may suggest.
    """
    unknown = [key for key in options if key not in ("name", "dtype", "trainable")]
    if unknown:
        key = unknown[0]
        choices = [*sorted(ReversalOptions.__optional_keys__), *arguments]
        choices += ["backbone", "num_classes", "label_head", "strength"]
        hint = did_you_mean(key, choices) or f" See `help(dann.{name})`."
        raise TypeError(
            f"`{name}` has no argument `{key}`. Received: {key}={options[key]!r}.{hint}"
        )
