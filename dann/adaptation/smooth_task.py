"""Smooth domain-adversarial training: losses at adversarially perturbed weights.

Any method accepts `task_radius`. The registered method `sdat` is `CDAN` with a radius of 0.05.
"""

from typing import Any

import keras
from keras import ops

from dann.adaptation.batch import sum_losses
from dann.adaptation.preserve_state import preserve_state
from dann.adaptation.replicas import average_over_replicas
from dann.autodiff import gradients


def compute_smooth_terms(
    model: Any, x: Any, labels: Any, sample_weight: Any
) -> tuple[dict[str, Any], list]:
    """Returns the terms of a step at the nearby weights where the task loss is largest.

    With the trainable weights `w`, the task loss `L(w)`, which is the sum of the label losses and
    the losses that layers add, and the radius `model.task_radius`,

    - `epsilon = radius * dL/dw / ||dL/dw||`, with the norm over all weights together
    - value: `losses(w + epsilon)`; gradient with respect to `w`: `dlosses/dw` at `w + epsilon`

    Both passes draw the same noise (dropout, augmentation). A step updates the state of the model
    only once and may take 1.8 times as long.

    Returns:
        The terms of `AdversarialModel.loss_terms`, and the losses that layers added.

    Reference:
        - [Rangwani et al., 2022](https://arxiv.org/abs/2206.08213), the objective of SDAT, which
          perturbs the weights for the task's loss alone.
        - [Foret et al., 2021](https://arxiv.org/abs/2010.01412), equation 2, for `epsilon`.
    """
    weights, states = model.trainable_variables, model.non_trainable_variables

    def compute_losses(scope):
        model.is_second_pass = True
        try:
            batch = model(x, training=True)._replace(labels=labels, weights=sample_weight)
        finally:
            model.is_second_pass = False
        # The scope collects the losses of outputs but not the penalties of weights.
        penalties = [w.regularizer(w.value) for w in weights if w.regularizer is not None]
        layer_losses = [*scope.losses, *penalties]
        states_before = [scope.get_current_value(state) for state in states]
        return model.loss_terms(batch), layer_losses, states_before

    def task_loss(*values):
        with preserve_state(model, list(zip(weights, values, strict=True))) as scope:
            terms, layer_losses, _ = compute_losses(scope)
            label_losses = [term for name, term in terms.items() if name.endswith("label/loss")]
            return sum_losses([*label_losses, *layer_losses])

    task_gradients = gradients(task_loss, [ops.convert_to_tensor(w.value) for w in weights])
    # Averaged, so that every replica perturbs the weights equally.
    task_gradients = average_over_replicas(task_gradients)
    dtype = keras.backend.result_type(*(g.dtype for g in task_gradients), "float32")
    norm = ops.sqrt(sum_losses(ops.square(ops.cast(g, dtype)) for g in task_gradients))
    scale = model.task_radius / ops.maximum(norm, 1e-12)  # finite if all gradients are 0
    perturbed_weights = [
        (weight, weight.value + ops.stop_gradient(ops.cast(scale, gradient.dtype) * gradient))
        for weight, gradient in zip(weights, task_gradients, strict=True)
    ]
    with preserve_state(model, perturbed_weights) as scope:
        terms, layer_losses, states_before = compute_losses(scope)
    # The first pass of the step already updated the state of the networks. The losses update the
    # state that only they use, such as random generators.
    for state, value_before in zip(states, states_before, strict=True):
        value = scope.get_current_value(state)
        if value is not value_before:
            state.assign(value)
    return terms, layer_losses
