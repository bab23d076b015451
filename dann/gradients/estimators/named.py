"""Estimators by name."""

from collections.abc import Sequence
from typing import Any

import keras

from dann.gradients.estimators.estimator import Estimator
from dann.gradients.estimators.levels import DoReFa, Ternary
from dann.gradients.estimators.sharpened import EDE, ReSTE
from dann.gradients.estimators.smooth import ApproxSign, SwishSign
from dann.gradients.estimators.straight_through import (
    Htanh,
    Identity,
    MagnitudeAware,
    Stochastic,
)

# One object a name, so that one traced function serves every call by that name.
ESTIMATORS: dict[str, Estimator] = {
    "htanh": Htanh(),
    "identity": Identity(),
    "approx_sign": ApproxSign(),
    "swish_sign": SwishSign(),
    "magnitude_aware": MagnitudeAware(),
    "ede": EDE(),
    "reste": ReSTE(),
    "stochastic": Stochastic(),
    "ternary": Ternary(),
    "dorefa": DoReFa(),
}


def get_estimator(identifier: Any) -> Estimator:
    """Returns the estimator that is meant.

    Args:
        identifier: A name, an `Estimator`, or the config of one as Keras serializes it.

    Returns:
        The estimator.

    Raises:
        ValueError: If no estimator has that name.
        TypeError: If `identifier` is none of these.

    Example:

    >>> from dann.gradients.estimators import get_estimator
    >>> get_estimator("swish_sign")
    SwishSign(beta=5.0)
    """
    if isinstance(identifier, dict):
        identifier = keras.saving.deserialize_keras_object(identifier)
    if isinstance(identifier, Estimator):
        return identifier
    if not isinstance(identifier, str):
        raise TypeError(
            "An estimator must be a name or an object of `dann.gradients.estimators`. "
            f"Received: {identifier!r}"
        )
    if identifier not in ESTIMATORS:
        raise ValueError(
            f"Argument `estimator` must be one of {sorted(ESTIMATORS)}, or an object of "
            f"`dann.gradients.estimators`. Received: estimator={identifier!r}"
        )
    return ESTIMATORS[identifier]


def get_kernel_estimator(identifier: Any, axes: Sequence[int]) -> Estimator:
    """Returns the estimator that is meant for a kernel.

    Args:
        identifier: As in `get_estimator`. The names `"magnitude_aware"` and `"dorefa"` get the
            parameters that fit a kernel.
        axes: The axes of the kernel's output channels.

    Returns:
        The estimator.

    Raises:
        ValueError: If there is no such estimator, or its values are never negative.
        TypeError: If `identifier` is neither a name nor an estimator.
    """
    if identifier == "magnitude_aware":
        return MagnitudeAware(list(axes))
    if identifier == "dorefa":
        return DoReFa(mode="kernel")
    estimator = get_estimator(identifier)
    if not estimator.signed:
        raise ValueError(
            "The estimator of a kernel must give negative values too: use "
            f"`DoReFa(mode='kernel')`. Received: {estimator!r}"
        )
    return estimator


def serialize_estimator(identifier: Any) -> Any:
    """Returns what `get_estimator` takes and JSON can hold: a name, a config or `None`."""
    if identifier is None or isinstance(identifier, str):
        return identifier
    return keras.saving.serialize_keras_object(get_estimator(identifier))
