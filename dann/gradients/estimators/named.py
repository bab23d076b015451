"""Estimators by name."""

from collections.abc import Sequence
from typing import Any

import keras

from dann.gradients.estimators.estimator import ESTIMATORS, Estimator
from dann.gradients.estimators.levels import DoReFa
from dann.gradients.estimators.quantizer import Quantizer
from dann.gradients.estimators.straight_through import MagnitudeAware


def get_estimator(identifier: Any) -> Estimator:
    """Returns an estimator by name, config or object.

    Args:
        identifier: A name, an `Estimator`, the config of one as Keras serializes it, or a function
            or layer that quantizes; see `Quantizer`.

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
    if callable(identifier) and not isinstance(identifier, type):
        return Quantizer(identifier)
    if not isinstance(identifier, str):
        raise TypeError(
            "An estimator must be a name or an object of `dann.gradients.estimators`, or a "
            "function or layer that quantizes. "
            f"Received: {identifier!r}"
        )
    return ESTIMATORS.entry(identifier).thing


def get_kernel_estimator(identifier: Any, axes: Sequence[int]) -> Estimator:
    """Returns the estimator of a kernel by name, config or object.

    Args:
        identifier: As in `get_estimator`. A `MagnitudeAware`, by name or as an object, gets the
            axes of this kernel; the name `"dorefa"` gives an object for kernels.
        axes: The axes of the kernel's output channels.

    Returns:
        The estimator.

    Raises:
        ValueError: If there is no such estimator, or its values are never negative.
        TypeError: If `identifier` is neither a name nor an estimator.
    """
    if identifier == "magnitude_aware" or isinstance(identifier, MagnitudeAware):
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


def name_or_estimator(identifier: Any) -> str | Estimator | None:
    """Returns a name or `None` as it is, and the estimator of anything else.

    A layer keeps what this returns. Keras recognizes objects that layers share by their address, so
    an estimator that was made anew for each config could be mistaken in a file for another one.

    Args:
        identifier: As in `get_estimator`, or `None`.
    """
    if identifier is None or isinstance(identifier, str):
        return identifier
    return get_estimator(identifier)
