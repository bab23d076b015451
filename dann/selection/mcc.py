from typing import Any

import numpy as np
from scipy import special

from dann.selection.outputs import check_target, logits


def mcc(
    model: Any,
    *,
    target: Any,
    source: Any = None,
    batch_size: int = 256,
    temperature: float = 2.5,
) -> float:
    """Scores a checkpoint by how little it confuses classes on the target: minus the confusion.

    With the softmax `p_i` of the logits over the temperature, for the `n` examples of the target:

    - `w_i = n (1 + exp(-H(p_i))) / sum over k of (1 + exp(-H(p_k)))`
    - `M_ab = sum over i of w_i p_ia p_ib`, each row divided by its sum
    - `-(1 / C) sum of M_ab over a != b`, in [(1 - C) / C, 0]

    Args:
        model: `dann.adaptation.AdversarialModel`, or any Keras model from inputs to logits.
        target: Inputs of the target.
        source: Not used.
        batch_size: Inputs at a time. Defaults to `256`.
        temperature: Divisor of the logits, above 0. Defaults to the paper's `2.5`.

    Returns:
        The score; higher is better.

    Raises:
        TypeError: If `target` is not one array of inputs.
        ValueError: If it is empty, a logit is not finite, or `temperature` is not above 0.

    Reference:
        - [Jin et al., 2020](https://arxiv.org/abs/1912.03699), equations 2 to 7.
    """
    if not temperature > 0:
        raise ValueError(f"Argument `temperature` must be above 0. Received: {temperature}")
    values = logits(model, check_target(target), batch_size) / temperature
    logs = special.log_softmax(values, axis=1)
    chances = np.exp(logs)
    certainty = 1 + np.exp(-special.entr(chances).sum(axis=1))
    weighted = certainty[:, None] * chances / certainty.mean()
    # Dividing a row by its sum undoes any factor of it, so each class is scaled to a maximum of 1:
    # one that is never predicted then does not underflow to 0 / 0.
    confusion = np.exp(logs - logs.max(axis=0)).T @ weighted  # (classes, classes)
    confusion /= confusion.sum(axis=1, keepdims=True)
    return float(np.trace(confusion) / len(confusion) - 1)
