"""Heads that learn faster than the backbone."""

from typing import Any

import keras

from dann.checks import check_number
from dann.optimizers.per_variable import PerVariable
from dann.schedules.learning_rates import ScaledSchedule


def faster_heads(
    model: Any, optimizer: keras.optimizers.Optimizer, factor: float = 10.0
) -> PerVariable:
    """Returns an optimizer with a higher learning rate for all variables outside the backbone.

    Use it for fine-tuning, where the backbone is pretrained and the heads start at random. The
    variables of `model.backbone` train at the optimizer's learning rate or schedule, all others
    (label head, discriminator, ...) at `factor` times this rate. The only other difference is that
    `global_clipnorm` limits the norm of each of the two groups separately.

    `keras.callbacks.LearningRateScheduler` calls its function for each group with the current rate
    and sets the rate to the result: return a multiple, such as `lambda epoch, rate: 0.9 * rate`. A
    function of the epoch alone gives both groups the same rate. Pass a schedule of
    `keras.optimizers.schedules` to the optimizer instead, to which `factor` applies in each step.

    Freeze and unfreeze layers first: the optimizer trains the variables that are trainable when
    this function is called.

    Args:
        model: Model to compile with the returned optimizer.
        optimizer: A single Keras optimizer, which does not change. The function copies its config,
            but neither its state nor its exclusions from weight decay.
        factor: Ratio of the heads' learning rate to the backbone's, above 0. Defaults to `10.0`,
            the usual choice.

    Example:

    >>> import dann, keras
    >>> model = dann.DANN(dann.networks.mlp_backbone((2,)), num_classes=3)
    >>> optimizer = dann.optimizers.faster_heads(model, keras.optimizers.SGD(0.01, momentum=0.9))
    >>> model.compile(optimizer, metrics=["accuracy"])

    Reference:
        - [Long et al., 2015](https://arxiv.org/abs/1502.02791), section 4.1.
    """
    factor = check_number("factor", factor, low=0, exclude_low=True)
    backbone = {id(variable) for variable in model.backbone.trainable_variables}
    indices = [int(id(variable) not in backbone) for variable in model.trainable_variables]
    return PerVariable(
        {"backbone": _copy_scaled(optimizer, "backbone", 1.0)},
        default_optimizer=_copy_scaled(optimizer, "heads", factor),
        optimizer_indices=indices,
        loss_scale_factor=optimizer.loss_scale_factor,
        name="faster_heads",
    )


def _copy_scaled(optimizer, name, factor):
    config = optimizer.get_config()
    rate = config["learning_rate"]  # a number, or the config of a schedule or a function
    rate = (
        ScaledSchedule(optimizer._learning_rate, factor)
        if isinstance(rate, dict)
        else factor * rate
    )
    return type(optimizer).from_config({**config, "name": name, "learning_rate": rate})
