"""The networks of `keras.applications`, by name."""

import difflib
import os
import pathlib
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import keras

from dann.checks import check_choice
from dann.networks.backbones import NETWORKS
from dann.networks.inputs import check_input_shape


@NETWORKS.register(
    "keras_application",
    summary="A network of `keras.applications`, by name.",
    example={"input_shape": (32, 32, 3), "name": "MobileNet", "alpha": 0.25},
)
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
        OSError: If Keras's file of ImageNet weights cannot be downloaded, or a file of weights does
            not exist.
        TypeError: If `trainable` is neither `True` or `False` nor names.
        ValueError: If the application, a stage or `pooling` is unknown, or the inputs or the file
            of weights do not fit it.
    """
    shape = check_input_shape(name, input_shape, height=32, width=32, channels=3)
    if shape[-1] != 3:
        raise ValueError(f"`{name}` takes RGB images, 3 channels. Received: input_shape={shape}")
    check_choice("pooling", pooling, ("avg", "max"))
    preprocess, make = _find(name)
    options = {**options, "include_top": False, "input_shape": shape, "pooling": pooling}
    if weights == "imagenet":
        application = _with_imagenet_weights(make, options)
    else:
        application = make(weights=None, **options)
        if weights is not None:
            _load_weights(application, name, pathlib.Path(weights).expanduser())
    _freeze(application, name, trainable)
    inputs = keras.Input(shape, name="images")
    features = application(preprocess(inputs))
    return keras.Model(inputs, features, name="backbone")


def _find(name: str) -> tuple[Callable, Callable]:
    """The preprocessing of an application, and the function that builds it."""
    known = [key for key in dir(keras.applications) if key[0].isupper()]
    if name not in known:
        near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.5) or known
        raise ValueError(
            f"There is no such network in `keras.applications`; similar: {', '.join(near)}. "
            f"Received: name={name!r}"
        )
    make = getattr(keras.applications, name)
    # Some applications' public modules hold only the preprocessing, not the function.
    return sys.modules[make.__module__].preprocess_input, make


def _with_imagenet_weights(make, options):
    try:
        return make(weights="imagenet", **options)
    except (ValueError, TypeError):
        raise
    # Keras raises a plain `Exception` if the download fails.
    except Exception as error:
        raise OSError(
            "ImageNet weights could not be downloaded; give the path of a local file as `weights`, "
            "or null to start at random"
        ) from error


def _load_weights(application, name, path):
    if not path.is_file():
        raise FileNotFoundError(
            "Argument `weights` must be 'imagenet', null or an existing file of weights. "
            f"Received: {path}"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # it also raises these as errors
            application.load_weights(path)
    except (ValueError, OSError, KeyError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"The file of weights must be one of {name} without its classifier "
            f"(`include_top=False`), '.weights.h5' or '.h5'. Received: {path} ({reason[:200]})"
        ) from error


def _freeze(application, name, trainable):
    stages = _wanted_stages(trainable)
    names = [layer.name for layer in application.layers if layer.weights]
    for stage in stages:
        if not any(_belongs(name, stage) for name in names):
            raise ValueError(
                f"No layer of {name} begins with a stage that `trainable` names; its layers begin "
                f"with {', '.join(_stages(names))}. Received: {stage!r}"
            )
    for layer in application.layers:
        layer.trainable = any(_belongs(layer.name, stage) for stage in stages)


def _wanted_stages(trainable):
    if trainable in (None, False, "none"):
        return []
    if trainable is True:
        return [""]  # every name begins with it
    stages = [trainable] if isinstance(trainable, str) else trainable
    if not isinstance(stages, Sequence) or not all(isinstance(stage, str) for stage in stages):
        raise TypeError(
            "Argument `trainable` must be true, false or the beginnings of layers' names. "
            f"Received: trainable={trainable!r}"
        )
    return stages


def _belongs(name, stage):
    rest = name.removeprefix(stage)
    cut_number = stage[-1:].isdigit() and rest[:1].isdigit()
    return name.startswith(stage) and not cut_number


def _stages(names):
    """The first parts of names, once each, in order: `conv5` of `conv5_block1_1_conv`."""
    parts = (re.match(r"[^\W\d_]*(_?\d+[a-z]?)?", name) for name in names)
    return list(dict.fromkeys(part.group() for part in parts if part))
