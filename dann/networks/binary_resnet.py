"""Residual network of binary convolutions."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import layers

from dann.networks.inputs import make_image_inputs
from dann.networks.layer_factory import LayerFactory, batch_normalize


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

    A block consists of a binary 3x3 convolution and batch normalization, with a shortcut around
    both that keeps the real-valued activations before the sign. From the second stage on, the first
    block of a stage halves height and width; its shortcut has 2x2 average pooling and a 1x1
    convolution in full precision. The blocks follow a 3x3 convolution, and the mean over the image
    follows the blocks.

    The features are real numbers: use this backbone with `dann.networks.label_head`.

    Args:
        input_shape: Height, width (at least `2 ** (len(filters) - 1)` each) and channels of the
            images.
        filters: Channels of each stage.
        blocks: Number of blocks per stage, at least 1. Defaults to `2`.
        binary: Whether the network is binary. `False` builds its full-precision counterpart: the
            same layers with ReLU instead of the sign. Defaults to `True`.
        first_layer: `"float"` (default) for a first layer in full precision, `"binary_kernel"` for
            a binary kernel on the images, or `"binary"` for a binary kernel on their signs.
        input_estimator: Estimator for the inputs of the layers: a name or an object of
            `dann.gradients.estimators`, or `None` to binarize only the kernels. Defaults to
            `"approx_sign"`, as in the paper.
        kernel_estimator: Estimator for the kernels. Defaults to `"magnitude_aware"`, as in the
            paper.
        pad_values: Value with which binary convolutions pad their inputs: -1, 0 or +1. Defaults to
            `-1.0`, with which the padded inputs are binary.
        input_range: Smallest and largest pixel value, mapped to [-1, 1]. Defaults to `(0, 255)`.
        name: Name of the model.

    Returns:
        A functional model from images to features; see `dann.networks`.

    Raises:
        ValueError: If `first_layer` is unknown, or `input_shape` is too small.

    Example:

    >>> from dann.networks import binary_resnet_backbone
    >>> binary_resnet_backbone((16, 16, 3), filters=(8, 16), blocks=1).output_shape
    (None, 16)

    Reference:
        - [Liu et al., 2018](https://arxiv.org/abs/1808.00278), sections 3.2 and 3.3.
    """
    min_size = 2 ** (len(filters) - 1)  # every stage but the first halves the image
    factory = LayerFactory(binary, input_estimator, kernel_estimator, first_layer)
    inputs, x = make_image_inputs("binary_resnet_backbone", input_shape, min_size, input_range)
    first = factory.convolution(filters[0], 3, first=True, padding="same", pad_values=pad_values)
    x = batch_normalize(first(x))
    for stage, channels in enumerate(filters):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            x = _add_block(x, channels, stride, factory, pad_values)
    return keras.Model(inputs, layers.GlobalAveragePooling2D()(x), name=name)


def _add_block(x, channels, stride, factory, pad_values):
    shortcut = x
    if stride > 1:
        shortcut = layers.AveragePooling2D(stride, padding="same")(shortcut)
    if channels != x.shape[-1]:
        shortcut = batch_normalize(layers.Conv2D(channels, 1, use_bias=False)(shortcut))
    convolution = factory.convolution(
        channels, 3, strides=stride, padding="same", pad_values=pad_values
    )
    return layers.Add()([batch_normalize(convolution(factory.activate(x))), shortcut])
