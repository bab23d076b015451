"""Losses at weights that were moved up the task's loss: smooth domain-adversarial training.

`sdat` is CDAN+E with it, and registered beside CDAN; any method takes `task_radius`.
"""

import functools
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from dann.adaptation.forward_pass import Losses, at_least_single
from dann.adaptation.replicas import mean_over_replicas
from dann.autodiff import gradients


def frozen(model: keras.Layer, values: Sequence[tuple] = ()) -> keras.StatelessScope:
    """Returns a scope in which nothing that a model or layer assigns to its variables survives.

    Every scope begins with the same seeds, so that two passes draw the same noise. `values` are
    pairs of a variable and the tensor that it reads as instead.
    """
    variables = [*model.variables, *getattr(model, "metrics_variables", [])]
    return keras.StatelessScope([*((v, v.value) for v in variables), *values])


def losses_at_moved_weights(
    model: Any, x: dict, y: Any, start: Sequence[Any], sample_weight: Any = None
) -> Losses:
    """Returns the losses at the nearby weights where the task's loss is largest.

    With the model's trainable weights `w`, its `task_loss` `L(w)` and `radius` its `task_radius`,

    - `epsilon = radius * dL/dw / ||dL/dw||`, the norm over all weights together
    - value: `losses(w + epsilon)`; gradient with respect to `w`: `dlosses/dw` at `w + epsilon`

    Random generators that the losses use move on. What the passes assign is not kept, because the
    step's own pass has assigned it already.

    `start` holds the values of the model's non-trainable variables before this step's pass. The
    passes here start from them, so that they draw the same noise. The other arguments are those of
    `AdversarialModel.pair_losses`.

    Reference:
        - [Rangwani et al., 2022](https://arxiv.org/abs/2206.08213), the objective of SDAT, in which
          the task's loss alone is the worst nearby.
        - [Foret et al., 2021](https://arxiv.org/abs/2010.01412), equation 2, for `epsilon`.
    """
    weights, others = model.trainable_variables, model.non_trainable_variables
    before_pass = list(zip(others, start, strict=True))

    def run():
        with frozen(model, before_pass):
            return model(x, training=True)

    def task(*values):
        with frozen(model, list(zip(weights, values, strict=True))):
            return model.task_loss(x, y, run(), sample_weight)

    mine = gradients(task, [ops.convert_to_tensor(weight.value) for weight in weights])
    slopes = mean_over_replicas(mine)  # of the whole batch, so that all move the weights alike
    squares = [ops.sum(ops.square(at_least_single(slope))) for slope in slopes]
    length = ops.sqrt(functools.reduce(ops.add, squares))
    scale = model.task_radius / ops.maximum(length, 1e-12)
    moved = [
        (weight, weight.value + ops.stop_gradient(ops.cast(scale, slope.dtype) * slope))
        for weight, slope in zip(weights, slopes, strict=True)
    ]
    with frozen(model, moved) as scope:
        before = [scope.get_current_value(variable) for variable in others]
        losses = model.pair_losses(x, y, run(), sample_weight)
    for variable, old in zip(others, before, strict=True):
        new = scope.get_current_value(variable)
        if new is not old:
            variable.assign(new)
    return losses
