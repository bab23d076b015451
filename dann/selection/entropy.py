from typing import Any

import numpy as np
from scipy import special

from dann.selection.outputs import check_target, probabilities


def entropy(model: Any, *, target: Any, source: Any = None, batch_size: int = 256) -> float:
    """Scores a checkpoint by how certain it is on the target: minus the mean entropy.

    With the softmax `p(x)`:

    - `-mean over the target of H(p(x))`, in [-log C, 0], `H(p) = -sum p log p`

    A model that gives everything to one class with certainty has the best score.

    Args:
        model: `dann.adaptation.AdversarialModel`, or any Keras model from inputs to logits.
        target: Inputs of the target.
        source: Not used.
        batch_size: Inputs at a time. Defaults to `256`.

    Returns:
        The score in nats; higher is better.

    Raises:
        TypeError: If `target` is not one array of inputs.
        ValueError: If it is empty, or a logit is not finite.

    Reference:
        - [Morerio et al., 2018](https://arxiv.org/abs/1711.10288), section 4.
    """
    chances = probabilities(model, check_target(target), batch_size)
    return -mean_entropy(chances)


def mean_entropy(chances: np.ndarray) -> float:
    """Returns the mean entropy of distributions `(n, num_classes)`, in nats."""
    return float(special.entr(chances).sum(axis=1).mean())
