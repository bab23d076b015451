import numpy as np
from scipy import special

from dann.checks import check_number
from dann.selection.outputs import Outputs
from dann.selection.scores import SCORES


@SCORES.register("mcc", reads="target")
def mcc(outputs: Outputs, temperature: float = 2.5) -> float:
    """Scores a checkpoint by its confusion between classes on the target, negated.

    With the softmax `p_i` of the logits over the temperature, for the `n` examples of the target:

    - `w_i = n (1 + exp(-H(p_i))) / sum over k of (1 + exp(-H(p_k)))`
    - `M_ab = sum over i of w_i p_ia p_ib`, each row divided by its sum
    - `-(1 / C) sum of M_ab over a != b`, in [(1 - C) / C, 0]

    Args:
        temperature: Divisor of the logits, above 0. Defaults to the paper's `2.5`.

    Reference:
        - [Jin et al., 2020](https://arxiv.org/abs/1912.03699), equations 2 to 7.
    """
    check_number("temperature", temperature, 0, above=True)
    logs = special.log_softmax(outputs.target_logits / temperature, axis=1)
    chances = np.exp(logs)
    certainty = 1 + np.exp(-special.entr(chances).sum(axis=1))
    weighted = certainty[:, None] * chances / certainty.mean()
    # Dividing a row by its sum cancels any factor of the row, so each class is scaled to a maximum
    # of 1: a class that is never predicted then does not underflow to 0 / 0.
    confusion = np.exp(logs - logs.max(axis=0)).T @ weighted  # (classes, classes)
    confusion /= confusion.sum(axis=1, keepdims=True)
    return float(np.trace(confusion) / len(confusion) - 1)
