"""Heads that learn faster than the backbone."""

import numbers
import re
from typing import Any

import keras

from dann.schedules import Scaled


def faster_heads(
    model: Any, optimizer: keras.optimizers.Optimizer, factor: float = 10.0
) -> keras.optimizers.MultiOptimizer:
    """Returns an optimizer under which all but the backbone learns at a higher rate.

    For fine-tuning: the backbone's weights are good already, those of the heads random. Variables
    of `model.backbone` learn at the optimizer's learning rate or schedule, all others (label head,
    discriminator, ...) at `factor` times it; nothing else about the optimizer changes, but that
    `global_clipnorm` limits the norm of each of the two parts by itself.

    The variables are known by their paths, which a saved model keeps.

    Args:
        model: Model with a `backbone`, such as `dann.DANN`, to be compiled with what this returns.
        optimizer: Any single Keras optimizer. It serves as a pattern and is not changed; what it
            has learnt so far is not taken over.
        factor: Learning rate of the heads in multiples of the backbone's, above 0. Defaults to
            `10.0`, the usual choice.

    Raises:
        TypeError: If the optimizer is itself made of others.
        ValueError: If `factor` is not above 0, or a variable of a head and one of the backbone have
            the same path.

    Reference:
        - [Long et al., 2015](https://arxiv.org/abs/1502.02791), section 4.1.
    """
    if not isinstance(factor, numbers.Real) or not 0 < factor < float("inf"):
        raise ValueError(
            f"Argument `factor` must be a finite number above 0. Received: factor={factor!r}"
        )
    composed = (keras.optimizers.MultiOptimizer, keras.optimizers.LossScaleOptimizer)
    if isinstance(optimizer, composed):
        raise TypeError(
            "Argument `optimizer` must be a single optimizer; compiling wraps what this returns "
            f"where precision needs it. Received: {type(optimizer).__name__}"
        )
    # One optimizer under several keys would come back from a file as several, hence one pattern.
    pattern = "|".join(re.escape(path) for path in _backbone_paths(model))
    optimizers = keras.optimizers.OptimizerMap(
        default_optimizer=_copy(optimizer, "heads", factor),
        optimizer_map={pattern: _copy(optimizer, "backbone", 1.0)},
    )
    return keras.optimizers.MultiOptimizer(
        optimizers, loss_scale_factor=optimizer.loss_scale_factor, name="faster_heads"
    )


def _backbone_paths(model):
    """Paths of the backbone's variables, frozen ones too: they may be thawed later."""
    of_backbone = {id(variable) for variable in model.backbone.weights}
    paths = sorted({variable.path for variable in model.backbone.weights})
    others = {variable.path for variable in model.weights if id(variable) not in of_backbone}
    shared = others.intersection(paths)
    if shared:
        raise ValueError(
            "The backbone's variables must have other paths than those of the heads, because the "
            "learning rate goes by the path; give their layers different names. Received in both: "
            f"{sorted(shared)}"
        )
    return paths


def _copy(optimizer, name, factor):
    config = optimizer.get_config()
    rate = config["learning_rate"]
    if isinstance(rate, dict):
        schedule = keras.saving.deserialize_keras_object(rate)
        rate = schedule if factor == 1.0 else Scaled(schedule, factor)
    else:
        rate = factor * rate
    return type(optimizer).from_config({**config, "name": name, "learning_rate": rate})
