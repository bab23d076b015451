"""How the label loss and the reversed domain loss pull at the shared backbone."""

from typing import Any

import numpy as np
from keras import ops

from dann.autodiff import gradients
from dann.diagnostics.passes import (
    adversarial,
    as_vector,
    cosine,
    in_mode,
    length_ratio,
    losses_at,
    mode_of,
)


def gradient_conflict(model: Any, data: Any, *, mode: str | None = None) -> dict[str, float]:
    """Compares the gradients of the label loss and of the reversed domain loss on the backbone.

    With `g` the gradient of the label loss with respect to the backbone's weights and `r` that of
    the domain loss, which arrives reversed:

    - `conflict/label_norm`, `conflict/domain_norm`: `||g||`, `||r||`
    - `conflict/ratio`: `||r|| / ||g||`, how much the adversary counts
    - `conflict/cosine`: `g'r / (||g|| ||r||)`; below 0 they pull apart

    If a gradient is all zeros, cosine and ratio are 0. The diagnostic takes 2 backward passes in
    training. The model does not change.

    The arguments are those of every diagnostic; see `dann.diagnostics.catalogue`.

    Raises:
        ValueError: If the model is not compiled, has no reversal, or no trainable backbone.

    Reference:
        - [Du et al., 2018](https://arxiv.org/abs/1812.02224), section 3, for the cosine;
          [Yu et al., 2020](https://arxiv.org/abs/2001.06782), definition 1, for the conflict.
    """
    weights = list(adversarial(model).backbone.trainable_variables)
    if model.reversal is None or not weights:
        raise ValueError(
            "A conflict needs two losses that train the backbone. Received: "
            f"{'no reversal' if model.reversal is None else 'a backbone that is not trainable'}"
        )
    losses = losses_at(model, weights, data)

    def both(*values):
        label = gradients(lambda *v: losses(*v).label, list(values))
        return label, gradients(lambda *v: losses(*v).adversarial, list(values))

    values = [ops.convert_to_tensor(weight.value) for weight in weights]
    label, domain = map(as_vector, in_mode(both, mode or mode_of(model))(*values))
    return {
        "conflict/label_norm": float(np.linalg.norm(label)),
        "conflict/domain_norm": float(np.linalg.norm(domain)),
        "conflict/ratio": length_ratio(domain, label),
        "conflict/cosine": cosine(label, domain),
    }
