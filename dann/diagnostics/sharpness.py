"""Measures the curvature of the label loss."""

from typing import Any

import numpy as np

from dann.autodiff import hvp
from dann.diagnostics.passes import check_method, losses_at
from dann.diagnostics.spectrum import largest_eigenvalue, linear_operator


def sharpness(model: Any, data: Any, samples: int = 16, seed: int = 0) -> dict[str, float]:
    """Measures the Hessian `H` of the label loss with respect to backbone and label head.

    - `sharpness/trace`: `trace H = E z' H z` over vectors `z` of random signs (Hutchinson);
      `sharpness/trace_error`: the standard error of this mean
    - `sharpness/top_eigenvalue`: the largest eigenvalue `h`, the curvature in the steepest
      direction, by Lanczos' method. Plain gradient descent is stable at a minimum for learning
      rates up to `2 / h`.

    Of two models that fit the source equally well, the flatter one transfers better. The label loss
    includes the losses of regularizers. It excludes the domain loss, because a flat domain loss
    weakens the adversary. A method that trains its critic more often than its backbone is measured
    outside training, because most of its steps give the backbone no gradient.

    Args:
        model: Compiled model of `dann.adaptation`.
        data: One batch, as in every diagnostic.
        samples: Number of random vectors, at least 2. Defaults to `16`.
        seed: Seed of the random vectors. Defaults to `0`.

    Returns:
        Measurements by name.

    Raises:
        ValueError: If the model is not compiled.

    Example:

    >>> import dann, numpy as np
    >>> from dann.diagnostics import sharpness
    >>> model = dann.SourceOnly(dann.networks.mlp_backbone((2,), hidden_units=(3,)), num_classes=2)
    >>> model.compile("sgd")
    >>> x = np.random.default_rng(0).normal(size=(8, 2)).astype("float32")
    >>> sorted(sharpness(model, ({"source": x, "target": x}, np.arange(8) % 2)))
    ['sharpness/top_eigenvalue', 'sharpness/trace', 'sharpness/trace_error']

    Reference:
        - [Hutchinson, 1990](https://doi.org/10.1080/03610919008812866): the trace.
        - [Rangwani et al., 2022](https://arxiv.org/abs/2206.08213), section 3: the loss of the task
          should be smooth, the loss of the adversary should not.
    """
    networks = check_method(model).backbone, model.label_head
    variables = [variable for network in networks for variable in network.trainable_variables]
    losses = losses_at(model, variables, data)
    values = [variable.value for variable in variables]
    product = linear_operator(lambda xs, vs: hvp(lambda *w: losses(*w).task, xs, vs), values)
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], size=(samples, product.shape[0]))
    curvatures = np.array([sign @ (product @ sign) for sign in signs])  # z' H z
    return {
        "sharpness/trace": float(curvatures.mean()),
        "sharpness/trace_error": float(curvatures.std(ddof=1) / np.sqrt(samples)),
        "sharpness/top_eigenvalue": largest_eigenvalue(product, seed),
    }
