"""A residual network of binary convolutions."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import layers

from dann.networks.float_twin import Precision, normalized
from dann.networks.inputs import image_inputs


def binary_resnet_backbone(
    input_shape: Sequence[int] = (32, 32, 3),
    filters: Sequence[int] = (32, 64, 128),
    blocks: int = 2,
    binary: bool = True,
    first_layer: str = "float",
    input_estimator: Any = "approx_sign",
    kernel_estimator: Any = "magnitude_aware",
    pad_values: float = -1.0,
    input_range: Sequence[float] = (0, 255),
    name: str = "backbone",
) -> keras.Model:
    """Builds a residual backbone of Bi-Real blocks.

    A block is a binary convolution 3x3 and batch normalization, with a shortcut around both that
    keeps the real-valued activations before the sign. From the second stage on, the first block of
    a stage halves height and width; its shortcut has mean pooling 2x2 and a convolution 1x1 in full
    precision. A convolution 3x3 comes before the blocks, the mean over the image after them.

    Its features are real numbers: use it with `dann.networks.label_head`.

    Shared arguments: see `dann.networks.binary_lenet_backbone`.

    Args:
        input_shape: Height, width (at least `2 ** (len(filters) - 1)` each) and channels of the
            images.
        filters: Channels of each stage.
        blocks: Blocks in each stage, at least 1. Defaults to `2`.
        input_estimator: Estimator of the layers' inputs. Defaults to `"approx_sign"`, the paper's.
        kernel_estimator: Estimator of the kernels. Defaults to `"magnitude_aware"`, the paper's.
        pad_values: What binary convolutions pad their inputs with: -1, 0 or +1. Defaults to `-1.0`,
            which keeps them binary.

    Raises:
        ValueError: Also if `first_layer` is unknown.

    Example:

    >>> from dann.networks import binary_resnet_backbone
    >>> binary_resnet_backbone((16, 16, 3), filters=(8, 16), blocks=1).output_shape
    (None, 16)

    Reference:
        - [Liu et al., 2018](https://arxiv.org/abs/1808.00278), sections 3.2 and 3.3.
    """
    least = 2 ** (len(filters) - 1)
    precision = Precision(binary, input_estimator, kernel_estimator, first_layer)
    inputs, x = image_inputs("binary_resnet_backbone", input_shape, least, input_range)
    first = precision.convolution(filters[0], 3, first=True, padding="same", pad_values=pad_values)
    x = normalized(first(x))
    for stage, channels in enumerate(filters):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            x = _bi_real_block(x, channels, stride, precision, pad_values)
    return keras.Model(inputs, layers.GlobalAveragePooling2D()(x), name=name)


def _bi_real_block(x, channels, stride, precision, pad_values):
    shortcut = x
    if stride > 1:
        shortcut = layers.AveragePooling2D(stride, padding="same")(shortcut)
    if channels != x.shape[-1]:
        shortcut = normalized(layers.Conv2D(channels, 1, use_bias=False)(shortcut))
    convolution = precision.convolution(
        channels, 3, strides=stride, padding="same", pad_values=pad_values
    )
    return layers.Add()([normalized(convolution(precision.between(x))), shortcut])
