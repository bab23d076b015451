"""Estimators by name, config, object or function."""

from collections.abc import Sequence
from typing import Any

import keras

from dann.checks import check_choice
from dann.gradients.estimators.estimator import ESTIMATORS, Estimator
from dann.gradients.estimators.quantizer import Quantizer
from dann.gradients.estimators.straight_through import DoReFa, MagnitudeAware


def get_estimator(identifier: Any) -> Estimator:
    """Returns an estimator by name, config, object or function.

    Args:
        identifier: A name, an `Estimator`, the config of one as Keras serializes it, or a function
            or layer that quantizes; see `Quantizer`.

    Returns:
        The estimator.

    Raises:
        ValueError: If `identifier` is none of these, or no estimator has that name.

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
    return ESTIMATORS[check_choice("estimator", identifier, sorted(ESTIMATORS))]


def get_kernel_estimator(identifier: Any, axes: Sequence[int]) -> Estimator:
    """Returns the estimator of a kernel by name, config, object or function.

    Args:
        identifier: As in `get_estimator`. A `MagnitudeAware`, by name or as an object, is replaced
            by one with the axes of the kernel; the name `"dorefa"` means an object for kernels.
        axes: Axes of the output channels of the kernel.

    Returns:
        The estimator.

    Raises:
        ValueError: If there is no such estimator, or its values are never negative.
    """
    if identifier == "magnitude_aware" or isinstance(identifier, MagnitudeAware):
        return MagnitudeAware(list(axes))
    if identifier == "dorefa":
        return DoReFa(mode="kernel")
    estimator = get_estimator(identifier)
    if not estimator.signed:
        raise ValueError(
            "Expected an estimator with negative values for a kernel. "
            f"Received: {estimator!r}. Use `DoReFa(mode='kernel')`"
        )
    return estimator


def standardize_estimator(identifier: Any) -> str | Estimator | None:
    """Returns a name or `None` unchanged, and the estimator for any other identifier.

    A layer stores the result. Keras recognizes objects that layers share by their address, so if a
    layer created a new estimator for each config, a file could confuse it with another object.

    Args:
        identifier: As in `get_estimator`, or `None`.
    """
    if identifier is None or isinstance(identifier, str):
        return identifier
    return get_estimator(identifier)
