"""Layers for a network in one bit, or for its float twin in full precision."""

import dataclasses
from typing import Any

import keras
from keras import layers

from dann.checks import check_choice
from dann.layers import BatchNormalization, BinaryConv2D, BinaryDense, BinarySign

FIRST_LAYERS = ("float", "binary_kernel", "binary")


@dataclasses.dataclass(frozen=True)
class Precision:
    """Makes the layers of a network: binary ones, or float ones for its float twin.

    Binary layers take the signs of their inputs themselves. The twin has a ReLU instead, and so has
    a network whose kernels alone are binary.

    Args:
        binary: Whether the network is binary.
        input_estimator: Estimator of the inputs of its layers, or `None` to take them as they are.
        kernel_estimator: Estimator of their kernels.
        first_layer: The first layer of a binary network: in full precision (`"float"`), or
            with a binary kernel on inputs as they are (`"binary_kernel"`) or on their signs
            (`"binary"`).
    """

    binary: bool
    input_estimator: Any
    kernel_estimator: Any
    first_layer: str = "float"

    def __post_init__(self):
        check_choice("first_layer", self.first_layer, FIRST_LAYERS)

    def dense(self, units: int, first: bool = False, **kwargs: Any) -> keras.layers.Layer:
        """Returns a dense layer without bias."""
        return self._layer(layers.Dense, BinaryDense, first)(units, use_bias=False, **kwargs)

    def convolution(
        self, filters: int, size: int, first: bool = False, pad_values: float = 0.0, **kwargs: Any
    ) -> keras.layers.Layer:
        """Returns a convolution without bias, padded with `pad_values` if it is binary."""
        make = self._layer(layers.Conv2D, BinaryConv2D, first)
        padding = {} if make is layers.Conv2D else {"pad_values": pad_values}
        return make(filters, size, use_bias=False, **padding, **kwargs)

    def _layer(self, full, binary, first):
        if not self.binary or (first and self.first_layer == "float"):
            return full
        as_they_are = first and self.first_layer == "binary_kernel"
        estimators = {
            "input_estimator": None if as_they_are else self.input_estimator,
            "kernel_estimator": self.kernel_estimator,
        }
        return lambda *args, **kwargs: binary(*args, **estimators, **kwargs)

    def between(self, x: Any) -> Any:
        """Returns the input of a layer but the first: with a ReLU unless the layer takes signs."""
        return x if self._signs else layers.ReLU()(x)

    def features(self, x: Any) -> Any:
        """Returns the sign or ReLU of `x`, for a layer that takes no signs itself."""
        return BinarySign(estimator=self.input_estimator)(x) if self._signs else layers.ReLU()(x)

    @property
    def _signs(self):
        return self.binary and self.input_estimator is not None


def normalized(x: Any) -> Any:
    """Returns batch-normalized activations, with the momentum .9 that binary networks need."""
    return BatchNormalization(momentum=0.9)(x)
