"""Layers of a binary network, or of its full-precision counterpart."""

import dataclasses
import functools
from typing import Any

import keras
from keras import layers

from dann.checks import check_choice
from dann.layers import BatchNormalization, BinaryConv2D, BinaryDense, BinarySign


@dataclasses.dataclass(frozen=True)
class LayerFactory:
    """Factory for the layers of a binary network or of its full-precision counterpart.

    Binary layers binarize their own inputs. With `binary=False`, or with binary kernels only,
    ReLU layers follow instead.

    Args:
        binary: Whether the network is binary.
        input_estimator: Estimator for the inputs of the layers, or `None` not to binarize them.
        kernel_estimator: Estimator for the kernels.
        first_layer: First layer of a binary network: in full precision (`"float"`), with a binary
            kernel (`"binary_kernel"`), or with a binary kernel and binary inputs (`"binary"`).

    Raises:
        ValueError: If `first_layer` is unknown.
    """

    binary: bool
    input_estimator: Any
    kernel_estimator: Any
    first_layer: str = "float"

    def __post_init__(self):
        check_choice("first_layer", self.first_layer, ("float", "binary_kernel", "binary"))

    def dense(self, units: int, first: bool = False, **kwargs: Any) -> keras.layers.Layer:
        """Returns a dense layer without bias."""
        # Batch normalization follows, which would cancel a bias.
        return self._get_class(layers.Dense, BinaryDense, first)(
            int(units), use_bias=False, **kwargs
        )

    def convolution(
        self, filters: int, size: int, first: bool = False, pad_values: float = 0.0, **kwargs: Any
    ) -> keras.layers.Layer:
        """Returns a convolution without bias, padded with `pad_values` if it is binary."""
        make = self._get_class(layers.Conv2D, BinaryConv2D, first)
        padding = {} if make is layers.Conv2D else {"pad_values": pad_values}
        return make(filters, size, use_bias=False, **padding, **kwargs)

    def _get_class(self, float_class, binary_class, first):
        if not self.binary or (first and self.first_layer == "float"):
            return float_class
        has_float_inputs = first and self.first_layer == "binary_kernel"
        return functools.partial(
            binary_class,
            input_estimator=None if has_float_inputs else self.input_estimator,
            kernel_estimator=self.kernel_estimator,
        )

    def activate(self, x: Any) -> Any:
        """Returns the input of a hidden layer: a ReLU, unless the layer binarizes its inputs."""
        return x if self._binarizes_inputs else layers.ReLU()(x)

    def make_features(self, x: Any) -> Any:
        """Returns the signs or the ReLU of `x`, for a layer that does not binarize its inputs."""
        if self._binarizes_inputs:
            return BinarySign(estimator=self.input_estimator)(x)
        return layers.ReLU()(x)

    @property
    def _binarizes_inputs(self):
        return self.binary and self.input_estimator is not None


def batch_normalize(x: Any) -> Any:
    """Applies batch normalization with the momentum 0.9 that binary networks need."""
    return BatchNormalization(momentum=0.9)(x)
