"""Estimators by name, config, object or function."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.checks import check_choice, check_registered
from dann.gradients.estimators.estimator import ESTIMATORS, Estimator
from dann.gradients.estimators.straight_through import DoReFa, MagnitudeAware, StraightThrough


@keras.saving.register_keras_serializable("dann")
class Quantizer(StraightThrough):
    """Estimator made from a function or layer, with the gradient of the function itself.

    - forward: `y = function(x)`
    - backward: the derivative of the function, or its own `keras.ops.custom_gradient`

    Layers accept the function instead of a name, as the layers of larq accept quantizers. The
    function must accept a tensor of any shape and return a tensor of the same shape. It must be
    registered with Keras, so that saved models can refer to it.

    Args:
        function: A function, or a `keras.layers.Layer` without weights.

    Raises:
        ValueError: If the function is not registered or has weights.

    Example:

    >>> import keras
    >>> from dann.layers import BinaryDense
    >>> @keras.saving.register_keras_serializable("mine")
    ... def ste_sign(x):
    ...     clipped = keras.ops.clip(x, -1, 1)
    ...     signs = keras.ops.where(x >= 0, 1.0, -1.0)
    ...     return clipped + keras.ops.stop_gradient(signs - clipped)
    >>> layer = BinaryDense(3, input_estimator=ste_sign, kernel_estimator=ste_sign)
    """

    implementations = ("override",)

    def __init__(self, function: Callable[[Any], Any]):
        self.function = function
        check_registered("quantizer", function)
        # The outputs for values from -2 to 2 show whether the quantizer has two levels.
        probe = np.linspace(-2, 2, 10, dtype="float32")
        values: Any = ops.convert_to_numpy(function(ops.convert_to_tensor(probe)))
        if getattr(function, "weights", None):
            raise ValueError(
                "Expected a quantizer without weights, because each kernel and each input is "
                f"quantized by a copy of it. Received: {function!r}"
            )
        # Kernels of one bit are binary for the optimizers of `dann.optimizers`.
        self.bits = 1 if np.isin(values, (-1, 1)).all() else 32

    @property
    def functions(self) -> dict[str, Callable]:
        return {"override": self.codes}

    def codes(self, inputs: Any) -> Any:
        return ops.cast(self.function(inputs), inputs.dtype)

    def get_config(self):
        return {"function": keras.saving.serialize_keras_object(self.function)}

    @classmethod
    def from_config(cls, config):
        return cls(keras.saving.deserialize_keras_object(config["function"]))


def get_estimator(identifier: Any) -> Estimator:
    """Returns an estimator by name, config, object or function.

    Args:
        identifier: A name, an `Estimator`, the serialized config of an estimator, or a function or
            layer that quantizes; see `Quantizer`.

    Returns:
        The estimator.

    Raises:
        ValueError: If `identifier` has another type, or no estimator has this name.

    Example:

    >>> from dann.gradients.estimators.identifiers import get_estimator
    >>> get_estimator("swish_sign")
    SwishSign(beta=5.0)
    """
    if isinstance(identifier, dict):
        identifier = keras.saving.deserialize_keras_object(identifier)
    if isinstance(identifier, Estimator):
        return identifier
    # A class is callable too, but `Htanh` instead of `Htanh()` is a mistake.
    if callable(identifier) and not isinstance(identifier, type):
        return Quantizer(identifier)
    return ESTIMATORS[check_choice("estimator", identifier, sorted(ESTIMATORS))]


def get_kernel_estimator(identifier: Any, axes: Sequence[int]) -> Estimator:
    """Returns the estimator of a kernel by name, config, object or function.

    Args:
        identifier: Identifier for `get_estimator`. A `MagnitudeAware` estimator, by name or as an
            object, is replaced by one with the axes of the kernel. The name `"dorefa"` is replaced
            by `DoReFa(mode="kernel")`.
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

    A layer stores the result and uses it in every config. Keras identifies objects that layers
    share by their address in memory, so a new object per config could be confused with another one.

    Args:
        identifier: Identifier for `get_estimator`, or `None`.
    """
    if identifier is None or isinstance(identifier, str):
        return identifier
    return get_estimator(identifier)
