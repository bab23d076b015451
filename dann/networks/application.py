"""The networks of `keras.applications`, by name."""

import os
import sys
from collections.abc import Sequence
from typing import Any

import keras

from dann.checks import check_choice


def application_backbone(
    input_shape: Sequence[int] = (224, 224, 3),
    name: str = "ResNet50",
    weights: str | os.PathLike | None = None,
    trainable: bool | str | Sequence[str] = True,
    pooling: str = "avg",
    **options: Any,
) -> keras.Model:
    """Builds a network of `keras.applications` without its classifier.

    It takes plain RGB images: the preprocessing that the network was trained with is part of it.

    Frozen layers keep their weights. Their batch normalization works in inference mode, so its
    moving statistics stay too. Stages, `trainable="conv5"` or `["conv4", "conv5"]`, fine-tune
    the layers whose names begin so and freeze all others; `block_1` does not match `block_10`.

    Args:
        input_shape: Height, width and channels, 3 of them, of the images. The smallest size is the
            application's: 32 for most, 75 and 71 for the Inceptions and Xception.
        name: Name in `keras.applications`, such as `"ResNet50"` (default) or `"MobileNetV3Small"`.
        weights: `None` (default) to start at random; `"imagenet"` for Keras's own file, which is
            downloaded unless it lies in `~/.keras/models`; or the path of a weights file of the
            application without its classifier (`include_top=False`); `~` is the home directory.
            ImageNet's weights of the first EfficientNets need `"imagenet"`: Keras rescales their
            inputs only then.
        trainable: `True` (default) to fine-tune all layers, `False` or `"none"` to freeze them, or
            the stages to fine-tune.
        pooling: `"avg"` (default) or `"max"` over the last feature map.
        **options: Further arguments of the application, such as `alpha` of the MobileNets.

    Returns:
        A functional model from images `(batch, height, width, 3)`, integer or float, from 0 to 255,
        to features `(batch, num_features)`.

    Raises:
        ValueError: If the application, a stage or `pooling` is unknown, or the inputs or the file
            of weights do not fit it.
    """
    known = [key for key in dir(keras.applications) if key[0].isupper()]
    make = getattr(keras.applications, check_choice("name", name, known))
    check_choice("pooling", pooling, ("avg", "max"))
    shape = tuple(input_shape)
    if len(shape) != 3 or shape[-1] != 3:
        raise ValueError(f"`{name}` takes RGB images, 3 channels. Received: input_shape={shape}")
    application = make(
        **options,
        include_top=False,
        input_shape=shape,
        pooling=pooling,
        weights=None if weights is None else os.path.expanduser(weights),
    )
    _freeze(application, trainable)
    # Some applications' public modules hold only the preprocessing, not the function.
    preprocess = sys.modules[make.__module__].preprocess_input
    inputs = keras.Input(shape, name="images")
    return keras.Model(inputs, application(preprocess(inputs)), name="backbone")


def _freeze(application, trainable):
    if isinstance(trainable, bool) or trainable in (None, "none"):
        stages = [""] if trainable is True else []  # every name begins with it
    else:
        stages = [trainable] if isinstance(trainable, str) else trainable
    names = [layer.name for layer in application.layers if layer.weights]
    for stage in stages:
        if not any(_belongs(name, stage) for name in names):
            raise ValueError(
                f"No layer of {application.name} begins with a stage that `trainable` names; its "
                f"layers begin with {sorted({name.split('_')[0] for name in names})}. "
                f"Received: {stage!r}"
            )
    for layer in application.layers:
        layer.trainable = any(_belongs(layer.name, stage) for stage in stages)


def _belongs(name, stage):
    rest = name.removeprefix(stage)
    cut_number = stage[-1:].isdigit() and rest[:1].isdigit()
    return name.startswith(stage) and not cut_number
