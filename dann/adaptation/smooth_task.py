"""Losses at weights that were moved up the task's loss (SDAT)."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from dann.adaptation.precision import at_least_single
from dann.autodiff import gradients


def frozen(model: keras.Model, values: Sequence[tuple] = ()) -> keras.StatelessScope:
    """Returns a scope in which the model runs without a trace.

    Its variables read as they do outside, and what assigns to them stays within the scope.

    Args:
        model: The model.
        values: Pairs of a variable and the tensor that it reads as instead.
    """
    variables = [*model.variables, *model.metrics_variables]
    return keras.StatelessScope([*((v, v.value) for v in variables), *values])


def loss_at_moved_weights(
    model: keras.Model,
    radius: float,
    state: Sequence[Any],
    x: Any,
    task_loss: Callable[[Any], Any],
    total_loss: Callable[[Any], Any],
) -> Any:
    """Returns the total loss where the task is worst nearby, to be descended from here.

    With the model's trainable weights `w` and the task's loss `L(w)`,

    - `epsilon = radius * dL/dw / ||dL/dw||`, the norm over all weights together
    - value: `total(w + epsilon)`; gradient with respect to `w`: `dtotal/dw` at `w + epsilon`

    What `total_loss` assigns to variables is kept (it updates metrics). What the passes assign is
    not: the step's own pass has done it.

    Args:
        model: The model that trains.
        radius: Length of the move.
        state: Values of the model's non-trainable variables before this step's pass. The passes
            here begin there, so that they draw the same noise.
        x: The pair of inputs.
        task_loss: Of the outputs, the loss of the labels.
        total_loss: Of the outputs, the loss to train on.

    Reference:
        - [Rangwani et al., 2022](https://arxiv.org/abs/2206.08213), the objective of SDAT, in which
          the task's loss alone is the worst nearby.
        - [Foret et al., 2021](https://arxiv.org/abs/2010.01412), equation 2, for `epsilon`.
    """
    weights = model.trainable_variables
    start = list(zip(model.non_trainable_variables, state, strict=True))

    def run():
        with frozen(model, start):
            return model(x, training=True)

    def task(*values):
        with frozen(model, list(zip(weights, values, strict=True))):
            return task_loss(run())

    slopes = gradients(task, [ops.convert_to_tensor(weight.value) for weight in weights])
    squares = [ops.sum(ops.square(at_least_single(slope))) for slope in slopes]
    length = ops.sqrt(functools.reduce(ops.add, squares))
    scale = radius / ops.maximum(length, 1e-12)
    moved = [
        (weight, weight.value + ops.stop_gradient(ops.cast(scale, slope.dtype) * slope))
        for weight, slope in zip(weights, slopes, strict=True)
    ]
    others = [*model.non_trainable_variables, *model.metrics_variables]
    with frozen(model, moved) as scope:
        before = [scope.get_current_value(variable) for variable in others]
        loss = total_loss(run())
    for variable, old in zip(others, before, strict=True):
        new = scope.get_current_value(variable)
        if new is not old:
            variable.assign(new)
    return loss
