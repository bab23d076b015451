from typing import Any

import numpy as np

from dann.checks import check_number
from dann.selection.predictions import check_target, probabilities
from dann.selection.scores import SCORES

_CELLS = 2**22  # of the similarity matrix, in memory at once


@SCORES.register(
    "snd",
    summary="Soft neighbourhood density of the predictions on the target.",
    reads="target",
    cost="similarities of all pairs of target examples",
    paper="[Saito et al., 2021](https://arxiv.org/abs/2108.10860)",
)
def snd(
    model: Any,
    *,
    target: Any,
    source: Any = None,
    batch_size: int = 256,
    temperature: float = 0.05,
) -> float:
    """Scores a checkpoint by the soft neighbourhood density of its predictions on the target.

    Examples whose predictions lie in dense clusters have many similar neighbours. With the softmax
    `p_i` of example `i`, `u_i = p_i / |p_i|` and the temperature `t`:

    - `P_ij = exp(u_i . u_j / t) / sum over k != i of exp(u_i . u_k / t)` for `j != i`
    - `mean over i of H(P_i)`, in [0, log(n - 1)], in nats

    The scale depends on the number of examples, so compare only scores on the same target. A model
    that predicts the same for everything has the best score.

    The matrix of `n * n` similarities is computed a few rows at a time.

    Shared arguments and errors: see `dann.selection.compute_scores`.

    Args:
        target: Inputs of the target, at least 2.
        temperature: Temperature of the similarities, above 0. Defaults to the paper's `0.05`.

    Reference:
        - [Saito et al., 2021](https://arxiv.org/abs/2108.10860), section 3.
    """
    check_number("temperature", temperature, 0, above=True)
    chances = probabilities(model, check_target(model, target, least=2), batch_size)
    units = chances / np.linalg.norm(chances, axis=1, keepdims=True)
    count = len(units)
    rows = max(1, _CELLS // count)
    total = 0.0
    for start in range(0, count, rows):
        part = units[start : start + rows] @ units.T / temperature  # (rows, n)
        itself = np.arange(len(part)), start + np.arange(len(part))
        part[itself] = -np.inf
        part -= part.max(axis=1, keepdims=True)
        powers = np.exp(part)
        part[itself] = 0.0  # its power is 0
        sums = powers.sum(axis=1)
        # H(P_i) = log Z - sum_j P_ij s_ij takes one logarithm a row.
        total += np.sum(np.log(sums) - np.einsum("ij,ij->i", powers, part) / sums)
    return float(total / count)
