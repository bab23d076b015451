from typing import Any

import numpy as np

from dann.selection.outputs import check_target, probabilities


def bnm(model: Any, *, target: Any, source: Any = None, batch_size: int = 256) -> float:
    """Scores a checkpoint by the nuclear norm of its predictions on the target.

    With the softmax matrix `P` `(n, C)` and the sum of its singular values `|P|_*`:

    - `|P|_* / sqrt(n * min(n, C))`, in (0, 1]

    The divisor is the greatest value that the norm can have: 1 is reached by predictions that are
    certain and give the classes in equal parts. For `n >= C` equal certain predictions give
    `1 / sqrt(C)`, uniform ones `1 / C`.

    Args:
        model: `dann.adaptation.AdversarialModel`, or any Keras model from inputs to logits.
        target: Inputs of the target.
        source: Not used.
        batch_size: Inputs at a time. Defaults to `256`.

    Returns:
        The score; higher is better.

    Raises:
        TypeError: If `target` is not one array of inputs.
        ValueError: If it is empty, or a logit is not finite.

    Reference:
        - [Cui et al., 2020](https://arxiv.org/abs/2003.12237), section 3.
    """
    chances = probabilities(model, check_target(target), batch_size)
    singular_values = np.linalg.svd(chances, compute_uv=False)
    return float(singular_values.sum() / np.sqrt(len(chances) * min(chances.shape)))
