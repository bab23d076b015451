import numpy as np
from scipy import special
from threadpoolctl import threadpool_limits

from dann.checks import check_number
from dann.selection.outputs import Outputs
from dann.selection.scores import SCORES

_ROWS = 64  # rows of the similarity matrix in memory at a time


@SCORES.register("snd", reads="target", min_target_examples=2)
def snd(outputs: Outputs, temperature: float = 0.05) -> float:
    """Scores a checkpoint by the soft neighborhood density of its predictions on the target.

    Examples in dense clusters of predictions have many similar neighbors. With the softmax `p_i` of
    example `i`, `u_i = p_i / |p_i|` and the temperature `t`:

    - `P_ij = exp(u_i . u_j / t) / sum over k != i of exp(u_i . u_k / t)` for `j != i`
    - `mean over i of H(P_i)`, in [0, log(n - 1)] up to rounding, in nats

    The scale depends on the number of examples, so compare scores only on the same target. A model
    with equal predictions for all examples has the best score.

    Similarities are computed in float32, 64 rows at a time. The time grows with `n^2`.

    Args:
        outputs: Outputs for at least 2 target examples.
        temperature: Temperature of the similarities, at least `0.02`, so that no exponential
            overflows. Defaults to `0.05`, as in the paper.

    Reference:
        - [Saito et al., 2021](https://arxiv.org/abs/2108.10860), section 3.
    """
    check_number("temperature", temperature, 0.02)
    probabilities = special.softmax(outputs.target_logits, axis=1)
    if len(probabilities) < 2:
        raise ValueError("Expected at least 2 target examples. Received: 1")
    norms = np.linalg.norm(probabilities, axis=1, keepdims=True)
    units = (probabilities / norms).astype("float32")  # (n, classes)
    entropies = []
    with threadpool_limits(1):  # threads would wait for each other in a busy loop
        for first in range(0, len(units), _ROWS):
            # (rows, n)
            similarities = units[first : first + _ROWS] / np.float32(temperature) @ units.T
            powers = np.exp(similarities)
            np.fill_diagonal(powers[:, first:], 0)  # an example is not its own neighbor
            total = powers.sum(axis=1)
            # H(P_i) = log Z_i - sum over j of P_ij s_ij needs only one logarithm per row.
            similarities *= powers
            entropies.extend(np.log(total) - similarities.sum(axis=1) / total)
    return float(np.mean(entropies, dtype="float64"))
