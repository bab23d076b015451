"""How sharply the label loss bends."""

import math
from typing import Any

import numpy as np
from keras import ops

from dann.adaptation import AdversarialModel
from dann.checks import check_integer
from dann.diagnostics.catalogue import ADVERSARIAL, DIAGNOSTICS
from dann.diagnostics.healthy_ranges import HealthyRange
from dann.diagnostics.instruments.losses import (
    at_weights,
    task_loss,
    trains_backbone,
    weights_of_task,
)
from dann.diagnostics.instruments.modes import as_tensors
from dann.diagnostics.instruments.spectrum import hessian_product, largest_eigenvalue


def _below_overshoot(found):
    return (-math.inf, 2 / found["game/step"]) if "game/step" in found else None


@DIAGNOSTICS.register(
    "sharpness",
    models=ADVERSARIAL,
    like_a_step=True,
    order=110,
    healthy=(
        HealthyRange(
            "sharpness/top_eigenvalue",
            "Sharpness of the label loss",
            "Largest curvature. Above 2 divided by the learning rate plain descent overshoots. Of "
            "two models that fit equally well, the flatter one transfers better.",
            given=_below_overshoot,
            words="at most 2 / game/step",
        ),
    ),
)
def sharpness(
    model: AdversarialModel,
    data: Any,
    samples: int = 16,
    training: bool = True,
    seed: int = 0,
) -> dict[str, float]:
    """Measures the Hessian `H` of the label loss with respect to backbone and label head.

    - `sharpness/trace`: `trace H = E z' H z` over vectors `z` of random signs (Hutchinson), and
      `sharpness/trace_error`, the standard error of this mean.
    - `sharpness/top_eigenvalue`: the largest eigenvalue, the curvature in the steepest direction,
      by Lanczos' method. Plain gradient descent is stable at a minimum up to a step of 2 divided by
      it.

    Of two models that fit the source equally well, the flatter one transfers better. The label loss
    includes the losses of regularizers. It leaves out the domain loss, because a flat one weakens
    the adversary. A method that trains its critic more often than its backbone is measured as
    outside training, because most of its steps give the backbone no gradient.

    Args:
        samples: Number of random vectors, at least 2. Defaults to `16`.

    The other arguments are those of every diagnostic; see `dann.diagnostics.catalogue`.

    Raises:
        ValueError: If `samples` is below 2.

    Example:

    >>> import dann, numpy as np
    >>> from dann.diagnostics import sharpness
    >>> model = dann.SourceOnly(dann.networks.mlp_backbone((2,), hidden_units=(3,)), num_classes=2)
    >>> x = np.random.default_rng(0).normal(size=(8, 2)).astype("float32")
    >>> sorted(sharpness(model, ({"source": x, "target": x}, np.arange(8) % 2)))
    ['sharpness/top_eigenvalue', 'sharpness/trace', 'sharpness/trace_error']

    Reference:
        - [Hutchinson, 1990](https://doi.org/10.1080/03610919008812866): the trace.
        - [Rangwani et al., 2022](https://arxiv.org/abs/2206.08213), section 3: the task's loss
          should be smooth, the adversary's should not.
    """
    check_integer("samples", samples, 2, why="because their spread gives the error")
    x, y = as_tensors(data)
    training = training and trains_backbone(model)
    variables = weights_of_task(model)

    def loss():
        # A method may weigh the labels by what its own networks say, so they run, too.
        batch = model.batch_of(x, model.extract(x, training), training)
        return task_loss(model, batch, x, y, training)

    function = at_weights(model, variables, loss)
    values = [ops.convert_to_tensor(variable.value) for variable in variables]
    product = hessian_product(function, values)
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], size=(samples, product.size))
    bends = np.array([sign @ product(sign) for sign in signs])
    return {
        "sharpness/trace": float(bends.mean()),
        "sharpness/trace_error": float(bends.std(ddof=1) / np.sqrt(samples)),
        "sharpness/top_eigenvalue": largest_eigenvalue(product, seed),
    }
