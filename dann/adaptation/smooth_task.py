"""Losses at weights that were moved up the task's loss: smooth domain-adversarial training.

`sdat` is CDAN with it, and registered beside CDAN; any method takes `task_radius`.
"""

from typing import Any

import keras
from keras import ops

from dann.adaptation.batch import sum_losses
from dann.adaptation.fitting import mean_over_replicas
from dann.adaptation.preserve_state import preserve_state
from dann.autodiff import gradients


def smooth_terms(model: Any, x: Any, y: Any, sample_weight: Any) -> tuple[dict[str, Any], list]:
    """Returns the terms of a step at the nearby weights where the task's loss is largest.

    With the model's trainable weights `w`, `L(w)` the loss of all labels and what layers add to it,
    and `radius` the model's `task_radius`,

    - `epsilon = radius * dL/dw / ||dL/dw||`, the norm over all weights together
    - value: `losses(w + epsilon)`; gradient with respect to `w`: `dlosses/dw` at `w + epsilon`

    Both passes draw the same noise (dropout, augmentation). A step changes the model's state as one
    pass does; it takes about twice as long.

    Returns:
        The terms, as `AdversarialModel.loss_terms`, and the losses that layers have added.

    Reference:
        - [Rangwani et al., 2022](https://arxiv.org/abs/2206.08213), the objective of SDAT, in which
          the task's loss alone is the worst nearby.
        - [Foret et al., 2021](https://arxiv.org/abs/2010.01412), equation 2, for `epsilon`.
    """
    weights, others = model.trainable_variables, model.non_trainable_variables

    def losses(scope):
        model.repeats_pass = True
        try:
            batch = model(x, training=True)._replace(weights=sample_weight)
        finally:
            model.repeats_pass = False
        # The scope holds what layers add for their outputs; penalties of weights are not among it.
        penalized = [one for one in weights if one.regularizer is not None]
        of_layers = [*scope.losses, *(one.regularizer(one.value) for one in penalized)]
        before = [scope.get_current_value(variable) for variable in others]
        return model.loss_terms(x, y, batch), of_layers, before

    def task(*values):
        with preserve_state(model, list(zip(weights, values, strict=True))) as scope:
            terms, of_layers, _ = losses(scope)
            of_labels = [term for name, term in terms.items() if name.endswith("label/loss")]
            return sum_losses([*of_labels, *of_layers])

    mine = gradients(task, [ops.convert_to_tensor(weight.value) for weight in weights])
    slopes = mean_over_replicas(mine)  # of the whole batch, so that all move the weights alike
    dtype = keras.backend.result_type(*(slope.dtype for slope in slopes), "float32")
    length = ops.sqrt(sum_losses(ops.square(ops.cast(slope, dtype)) for slope in slopes))
    scale = model.task_radius / ops.maximum(length, 1e-12)
    moved = [
        (weight, weight.value + ops.stop_gradient(ops.cast(scale, slope.dtype) * slope))
        for weight, slope in zip(weights, slopes, strict=True)
    ]
    with preserve_state(model, moved) as scope:
        terms, of_layers, before = losses(scope)
    # The step's own pass has assigned what a pass assigns; the losses move on what they draw from.
    for variable, old in zip(others, before, strict=True):
        new = scope.get_current_value(variable)
        if new is not old:
            variable.assign(new)
    return terms, of_layers
