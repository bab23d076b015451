import numpy as np
from scipy import special
from threadpoolctl import threadpool_limits

from dann.checks import check_number
from dann.selection.outputs import Outputs
from dann.selection.scores import SCORES

_ROWS = 64  # of the matrix of similarities in memory at once


@SCORES.register("snd", reads="target", min_target_examples=2)
def snd(outputs: Outputs, temperature: float = 0.05) -> float:
    """Scores a checkpoint by the soft neighbourhood density of its predictions on the target.

    Examples whose predictions lie in dense clusters have many similar neighbours. With the softmax
    `p_i` of example `i`, `u_i = p_i / |p_i|` and the temperature `t`:

    - `P_ij = exp(u_i . u_j / t) / sum over k != i of exp(u_i . u_k / t)` for `j != i`
    - `mean over i of H(P_i)`, in [0, log(n - 1)] up to rounding, in nats

    The scale depends on the number of examples, so compare only scores on the same target. A model
    that predicts the same for everything has the best score.

    Similarities are computed in float32, some rows at a time. The time grows with `n^2`.

    Args:
        outputs: Of at least 2 target examples.
        temperature: Temperature of the similarities, at least `0.02`, so that no power overflows.
            Defaults to the paper's `0.05`.

    Reference:
        - [Saito et al., 2021](https://arxiv.org/abs/2108.10860), section 3.
    """
    check_number("temperature", temperature, 0.02)
    chances = special.softmax(outputs.target_logits, axis=1)
    if len(chances) < 2:
        raise ValueError("The target must hold at least 2 examples. Received: 1")
    units = (chances / np.linalg.norm(chances, axis=1, keepdims=True)).astype("float32")
    entropies = []
    with threadpool_limits(1):  # threads would wait for each other in a busy loop
        for first in range(0, len(units), _ROWS):
            similar = units[first : first + _ROWS] / np.float32(temperature) @ units.T
            powers = np.exp(similar)
            np.fill_diagonal(powers[:, first:], 0)  # no example is its own neighbour
            total = powers.sum(axis=1)
            # H(P_i) = log Z - sum_j P_ij s_ij takes one logarithm a row.
            similar *= powers
            entropies.extend(np.log(total) - similar.sum(axis=1) / total)
    return float(np.mean(entropies, dtype="float64"))
