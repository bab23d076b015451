"""Compares the gradients of the label loss and the domain loss on the backbone."""

from typing import Any

import numpy as np
from keras import ops

from dann.autodiff import gradients
from dann.diagnostics.passes import (
    as_vector,
    check_method,
    cosine,
    fit_mode,
    in_mode,
    length_ratio,
    losses_at,
)


def gradient_conflict(model: Any, data: Any, *, mode: str | None = None) -> dict[str, float]:
    """Compares the gradients of the label loss and of the reversed domain loss on the backbone.

    With the gradients of the label loss, `g`, and of the reversed domain loss, `r`, with respect to
    the weights of the backbone:

    - `conflict/label_norm`, `conflict/domain_norm`: `||g||`, `||r||`
    - `conflict/ratio`: `||r|| / ||g||`, the weight of the adversary
    - `conflict/cosine`: `g'r / (||g|| ||r||)`; below 0 the losses conflict

    If a gradient is all zeros, cosine and ratio are 0. The diagnostic takes 2 backward passes in
    training. The model does not change.

    Args:
        model: Compiled model of `dann.adaptation` with a reversal.
        data: One batch, as in every diagnostic.
        mode: `"eager"`, `"graph"` or `"xla"`. Defaults to `None`: the mode of `fit`.

    Returns:
        Measurements by name.

    Raises:
        ValueError: If the model is not compiled, has no reversal, or no trainable backbone.

    Reference:
        - [Du et al., 2018](https://arxiv.org/abs/1812.02224), section 3, for the cosine;
          [Yu et al., 2020](https://arxiv.org/abs/2001.06782), definition 1, for the conflict.
    """
    weights = list(check_method(model).backbone.trainable_variables)
    if model.reversal is None or not weights:
        reason = "a frozen backbone" if model.reversal else "no reversal"
        raise ValueError(f"Expected two losses that train the backbone. Received: {reason}")
    losses = losses_at(model, weights, data)

    def compute_gradients(*values):
        label = gradients(lambda *v: losses(*v).label, list(values))
        return label, gradients(lambda *v: losses(*v).adversarial, list(values))

    values = [ops.convert_to_tensor(weight.value) for weight in weights]
    label, domain = map(as_vector, in_mode(compute_gradients, mode or fit_mode(model))(*values))
    return {
        "conflict/label_norm": float(np.linalg.norm(label)),
        "conflict/domain_norm": float(np.linalg.norm(domain)),
        "conflict/ratio": length_ratio(domain, label),
        "conflict/cosine": cosine(label, domain),
    }
