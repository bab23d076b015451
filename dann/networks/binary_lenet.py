"""The DANN paper's MNIST network, binarized."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import layers

from dann.networks.float_twin import Precision, normalized
from dann.networks.inputs import image_inputs


def binary_lenet_backbone(
    input_shape: Sequence[int] = (28, 28, 3),
    filters: Sequence[int] = (32, 48),
    binary: bool = True,
    first_layer: str = "float",
    input_estimator: Any = "htanh",
    kernel_estimator: Any = "htanh",
    input_range: Sequence[float] = (0, 255),
    name: str = "backbone",
    instance_norm: bool = False,
) -> keras.Model:
    """Builds the feature extractor of the paper's MNIST experiments with binary layers.

    Twice convolution 5x5, max pooling 2x2 and batch normalization; flat. The signs, which replace
    the paper's ReLU, come after the pooling: a maximum of signs would be +1 nearly everywhere. On
    28x28 images that makes 768 features of -1 and +1.

    Use it with `dann.networks.binary_label_head`.

    Args:
        input_shape: Height, width (at least 16 each) and channels of the images.
        filters: Channels of the two convolutions. Defaults to the paper's; a binary network gains
            from more.
        binary: `False` builds the float twin: the same layers in full precision, with ReLU instead
            of the sign. Defaults to `True`.
        first_layer: `"float"` (default) for a first layer in full precision; `"binary_kernel"` for
            a binary kernel on the images as they are; `"binary"` for one on their signs.
        input_estimator: Estimator of the layers' inputs, a name or an object of
            `dann.gradients.estimators`, or `None` to binarize the kernels alone. Defaults to
            `"htanh"`.
        kernel_estimator: Estimator of the kernels. Defaults to `"htanh"`.
        instance_norm: Whether each image's channels are brought to mean 0 and variance 1 first; see
            `dann.networks.inputs.image_inputs`. Defaults to `False`.

    The other arguments are those of every backbone; see `dann.networks`.

    Raises:
        ValueError: Also if `first_layer` is unknown.

    Example:

    >>> from dann.networks import binary_lenet_backbone
    >>> binary_lenet_backbone((28, 28, 1)).output_shape
    (None, 768)

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), figure 4a.
        - [Rastegari et al., 2016](https://arxiv.org/abs/1603.05279), section 3.2: pooling before
          the sign.
    """
    precision = Precision(binary, input_estimator, kernel_estimator, first_layer)
    inputs, x = image_inputs("binary_lenet_backbone", input_shape, 16, input_range, instance_norm)
    for place, channels in enumerate(filters):
        x = precision.between(x) if place else x
        x = precision.convolution(channels, 5, first=place == 0)(x)
        x = normalized(layers.MaxPooling2D()(x))
    return keras.Model(inputs, precision.features(layers.Flatten()(x)), name=name)
