"""Heads that learn faster than the backbone."""

from typing import Any

import keras
from keras.optimizers.schedules import LearningRateSchedule

from dann.checks import check_number
from dann.optimizers.per_variable import PerVariable, is_composed
from dann.schedules import Scaled


def faster_heads(
    model: Any, optimizer: keras.optimizers.Optimizer, factor: float = 10.0
) -> PerVariable:
    """Returns an optimizer with a higher learning rate for everything but the backbone.

    Use it for fine-tuning, where the backbone is trained already and the heads start at random.
    Variables of `model.backbone` learn at the optimizer's learning rate or schedule, all others
    (label head, discriminator, ...) at `factor` times it. The only other change: `global_clipnorm`
    limits the norm of each of the two parts separately.

    Freeze and unfreeze layers first: the optimizer is for the variables that train now.

    Args:
        model: Model to compile with the result.
        optimizer: Any single Keras optimizer. It is copied without its state, and does not change.
        factor: Learning rate of the heads in multiples of the backbone's, above 0. Defaults to
            `10.0`, the usual choice.

    Raises:
        TypeError: If the optimizer consists of others, or its learning rate is a function but no
            schedule.
        ValueError: If the model is not built.

    Example:

    >>> import dann, keras
    >>> model = dann.DANN(dann.networks.mlp_backbone((2,)), num_classes=3)
    >>> optimizer = dann.optimizers.faster_heads(model, keras.optimizers.SGD(0.01, momentum=0.9))
    >>> model.compile(optimizer, metrics=["accuracy"])

    Reference:
        - [Long et al., 2015](https://arxiv.org/abs/1502.02791), section 4.1.
    """
    factor = check_number("factor", factor, low=0, above=True)
    if is_composed(optimizer) or not isinstance(optimizer, keras.optimizers.Optimizer):
        raise TypeError(
            "Argument `optimizer` must be a single optimizer; `compile` wraps the result if the "
            f"precision needs it. Received: {type(optimizer).__name__}"
        )
    _check_rate(optimizer)
    if not model.built:
        raise ValueError(
            "The variables of the model must be there: call it first, `model(inputs[:1])`. "
            f"Received: {type(model).__name__}, which is built at the first batch"
        )
    backbone = {id(variable) for variable in model.backbone.trainable_variables}
    variables = model.trainable_variables
    return PerVariable(
        {"backbone": _copy(optimizer, "backbone", 1.0)},
        rest=_copy(optimizer, "heads", factor),
        places=[int(id(variable) not in backbone) for variable in variables],
        loss_scale_factor=optimizer.loss_scale_factor,
        name="faster_heads",
        undecayed=[
            place
            for place, variable in enumerate(variables)
            if not optimizer._use_weight_decay(variable)
        ],
    )


def _check_rate(optimizer):
    rate = getattr(optimizer, "_learning_rate", None)  # the public one is its value
    if callable(rate) and not isinstance(rate, LearningRateSchedule):
        raise TypeError(
            "The learning rate must be a number or a schedule, such as one of "
            f"`keras.optimizers.schedules`, to be multiplied. Received: {rate!r}"
        )


def _copy(optimizer, name, factor):
    config = optimizer.get_config()
    rate = config["learning_rate"]
    if isinstance(rate, dict):
        rate = Scaled(keras.saving.deserialize_keras_object(rate), factor)
    else:
        rate = factor * rate
    return type(optimizer).from_config({**config, "name": name, "learning_rate": rate})
