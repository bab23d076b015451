"""BinaryNet's multilayer perceptron."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import layers

from dann.networks.float_twin import Precision, normalized
from dann.networks.inputs import rescale


def binary_mlp_backbone(
    input_shape: Sequence[int],
    hidden_units: Sequence[int] = (4096, 4096, 4096),
    binary: bool = True,
    first_layer: str = "binary_kernel",
    input_estimator: Any = "htanh",
    kernel_estimator: Any = "htanh",
    input_range: Sequence[float] | None = None,
    name: str = "backbone",
) -> keras.Model:
    """Builds a multilayer perceptron with binary kernels and binary activations.

    Each layer is binary, without bias, and followed by batch normalization; the features are the
    signs of the last. `dann.networks.binary_label_head` with no hidden layer makes BinaryNet's
    perceptron of it.

    Shared arguments: see `dann.networks.binary_lenet_backbone`.

    Args:
        input_shape: Shape of one example; flattened if it has more than one axis.
        hidden_units: Widths of the layers; the last is the number of features. Defaults to
            BinaryNet's for MNIST.
        first_layer: `"binary_kernel"` (default), BinaryNet's: a binary kernel on the inputs as they
            are; `"binary"` on their signs; `"float"` for a layer in full precision.
        input_range: Smallest and largest value of the inputs, to map them to [-1, 1]. Defaults to
            `None`: the inputs are taken as they are.

    Returns:
        A functional model from `(batch, *input_shape)` to features `(batch, hidden_units[-1])` of
        -1 and +1.

    Raises:
        ValueError: If `first_layer` is unknown.

    Example:

    >>> from dann.networks import binary_mlp_backbone
    >>> binary_mlp_backbone((28, 28, 1), hidden_units=(64, 32)).output_shape
    (None, 32)

    Reference:
        - [Hubara et al., 2016](https://arxiv.org/abs/1602.02830), section 2.1.
    """
    precision = Precision(binary, input_estimator, kernel_estimator, first_layer)
    inputs = keras.Input(tuple(input_shape), name="inputs")
    x = inputs if input_range is None else rescale(input_range)(inputs)
    x = layers.Flatten()(x) if len(input_shape) > 1 else x
    for place, units in enumerate(hidden_units):
        x = precision.between(x) if place else x
        x = normalized(precision.dense(units, first=place == 0)(x))
    return keras.Model(inputs, precision.features(x), name=name)
