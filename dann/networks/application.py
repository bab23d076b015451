"""Backbones from `keras.applications`."""

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

    The backbone takes RGB images from 0 to 255. It includes the preprocessing that the application
    was trained with.

    Frozen layers keep their weights. Their batch normalization runs in inference mode, so its
    moving statistics do not change either. Stages, such as `trainable="conv5"` or
    `["conv4", "conv5"]`, fine-tune the layers whose names begin with one of these words and freeze
    all others. The stage `block_1` does not match `block_10`.

    Args:
        input_shape: Height, width and channels of the images, with 3 channels. The smallest size
            depends on the application: 32 for most, 75 for the Inceptions, 71 for Xception.
        name: Name in `keras.applications`, such as `"ResNet50"` (default) or `"MobileNetV3Small"`.
        weights: `None` (default) for random weights; `"imagenet"` for the file from Keras, which is
            downloaded unless `~/.keras/models` contains it; or the path of a weights file of the
            application without its classifier (`include_top=False`), where `~` is the home
            directory. For the ImageNet weights of EfficientNetB0 to B7 use `"imagenet"`, because
            Keras rescales their inputs only then.
        trainable: `True` (default) to fine-tune all layers, `False` or `"none"` to freeze them
            until `backbone.trainable = True`, or the stages to fine-tune.
        pooling: `"avg"` (default) or `"max"`, the pooling of the last feature map.
        **options: Further arguments of the application, such as `alpha` of the MobileNets.

    Returns:
        A functional model from images `(batch, height, width, 3)`, integer or float, from 0 to 255,
        to features `(batch, num_features)`.

    Raises:
        ValueError: If the application, a stage or `pooling` is unknown, or if `input_shape` or the
            weights file does not fit the application.
    """
    names = [key for key in dir(keras.applications) if key[0].isupper()]
    make = getattr(keras.applications, check_choice("name", name, names))
    check_choice("pooling", pooling, ("avg", "max"))
    shape = tuple(input_shape)
    if len(shape) != 3 or shape[-1] != 3:
        raise ValueError(
            f"Expected the shape of RGB images (height, width, 3) for {name}. "
            f"Received: input_shape={shape}"
        )
    application = make(
        **options,
        include_top=False,
        input_shape=shape,
        pooling=pooling,
        weights=None if weights is None else os.path.expanduser(weights),
    )
    # The public modules of some applications lack the function, so the private one is used.
    preprocess = sys.modules[make.__module__].preprocess_input
    inputs = keras.Input(shape, name="images")
    backbone = keras.Model(inputs, application(preprocess(inputs)), name="backbone")
    if trainable is not True:
        _freeze(backbone, application, trainable)
    return backbone


def _freeze(backbone, application, trainable):
    if trainable in (False, "none"):
        backbone.trainable = False  # on the model, so that `backbone.trainable = True` unfreezes it
        return
    stages = [trainable] if isinstance(trainable, str) else trainable
    names = [layer.name for layer in application.layers if layer.weights]
    for stage in stages:
        if not any(_is_in_stage(name, stage) for name in names):
            prefixes = sorted({name.split("_")[0] for name in names})
            raise ValueError(
                f"Expected `trainable` to contain prefixes of layer names of {application.name}, "
                f"such as {prefixes}. Received: {stage!r}"
            )
    for layer in application.layers:
        layer.trainable = any(_is_in_stage(layer.name, stage) for stage in stages)
    # With TensorFlow, Keras ignores `backbone.trainable = True` if the value is `True` already, and
    # the frozen layers would stay frozen. It does not ignore it if the value is 1.
    backbone._trainable = application._trainable = 1


def _is_in_stage(name, stage):
    suffix = name.removeprefix(stage)
    splits_number = stage[-1:].isdigit() and suffix[:1].isdigit()  # such as block_1 in block_10
    return name.startswith(stage) and not splits_number
