"""Regret: the accuracy that is lost by choosing a checkpoint by a score."""

from collections.abc import Mapping, Sequence

import numpy as np


def regret(
    scores: Mapping[str, Sequence[float]], oracle: Sequence[float]
) -> dict[str, dict[str, float]]:
    """Returns the accuracy that is lost by choosing a checkpoint by each score.

    - `choice = argmax of the score`, the earliest of equal scores
    - `accuracy = oracle[choice]`
    - `regret = max(oracle) - accuracy`, at least 0

    A checkpoint whose score is NaN is never chosen.

    Args:
        scores: By name, the values of a score for each checkpoint; higher is better.
        oracle: Accuracy on the target for each checkpoint.

    Returns:
        By score, `choice` (the index of the checkpoint), `accuracy` and `regret`. A score that is
        finite at no checkpoint is left out.

    Raises:
        ValueError: If the numbers of checkpoints differ.

    Example:

    >>> from dann.selection import regret
    >>> regret({"entropy": [-0.9, -0.1, -0.3]}, oracle=[0.5, 0.25, 0.75])
    {'entropy': {'choice': 1, 'accuracy': 0.25, 'regret': 0.5}}
    """
    accuracies = np.asarray(oracle, "float64")
    result = {}
    for name, values in scores.items():
        if len(values) != len(accuracies):
            raise ValueError(
                f"Expected one value per checkpoint from the score {name!r} and the oracle. "
                f"Received: {len(values)} and {len(accuracies)} values"
            )
        if np.isfinite(np.asarray(values, "float64")).any():
            choice = int(np.nanargmax(values))
            accuracy = float(accuracies[choice])
            cost = float(accuracies.max()) - accuracy
            result[name] = {"choice": choice, "accuracy": accuracy, "regret": cost}
    return result
