from typing import Any

import numpy as np
from scipy import special

from dann.selection.outputs import check_target, probabilities

_CELLS = 2**22  # of the similarity matrix that are in memory at once


def snd(
    model: Any,
    *,
    target: Any,
    source: Any = None,
    batch_size: int = 256,
    temperature: float = 0.05,
) -> float:
    """Scores a checkpoint by the soft neighbourhood density of its predictions on the target.

    Examples whose predictions lie in dense clusters have many neighbours alike. With the softmax
    `p_i` of example `i`, `u_i = p_i / |p_i|` and the temperature `t`:

    - `P_ij = exp(u_i . u_j / t) / sum over k != i of exp(u_i . u_k / t)` for `j != i`
    - `mean over i of H(P_i)`, in [0, log(n - 1)]

    The scale depends on the number of examples, so compare over the same target alone. A model that
    gives the same prediction for everything has the best score.

    The matrix of `n * n` similarities is made a few rows at a time.

    Args:
        model: `dann.adaptation.AdversarialModel`, or any Keras model from inputs to logits.
        target: Inputs of the target, at least 2.
        source: Not used.
        batch_size: Inputs at a time. Defaults to `256`.
        temperature: Temperature of the similarities, above 0. Defaults to the paper's `0.05`.

    Returns:
        The score in nats; higher is better.

    Raises:
        TypeError: If `target` is not one array of inputs.
        ValueError: If it has fewer than 2 examples, a logit is not finite, or `temperature` is not
            above 0.

    Reference:
        - [Saito et al., 2021](https://arxiv.org/abs/2108.10860), section 3.
    """
    if not temperature > 0:
        raise ValueError(f"Argument `temperature` must be above 0. Received: {temperature}")
    chances = probabilities(model, check_target(target, least=2), batch_size)
    units = chances / np.linalg.norm(chances, axis=1, keepdims=True)
    count = len(units)
    rows = max(1, _CELLS // count)
    total = 0.0
    for start in range(0, count, rows):
        part = units[start : start + rows] @ units.T / temperature  # (rows, n)
        part[np.arange(len(part)), start + np.arange(len(part))] = -np.inf  # not of itself
        total += special.entr(special.softmax(part, axis=1)).sum()
    return float(total / count)
