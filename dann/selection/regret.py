"""The cost of choosing a checkpoint by each score instead of the oracle."""

from collections.abc import Mapping, Sequence

import numpy as np


def regret(
    scores: Mapping[str, Sequence[float]], oracle: Sequence[float]
) -> dict[str, dict[str, float]]:
    """Returns the cost of choosing a checkpoint by each score.

    - `choice = argmax of the score`, the earliest if several are equal
    - `accuracy = oracle[choice]`
    - `regret = max(oracle) - accuracy`, at least 0

    A checkpoint whose score is NaN is never chosen.

    Args:
        scores: Values of each score by checkpoint; higher is better.
        oracle: Accuracy on the target by checkpoint.

    Returns:
        By score, `choice` (the index of the checkpoint), `accuracy` and `regret`. A score without a
        finite number at any checkpoint is left out.

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
                f"Score {name!r} and the oracle must have a value for each checkpoint. "
                f"Received: {len(values)} and {len(accuracies)}"
            )
        if np.isfinite(np.asarray(values, "float64")).any():
            choice = int(np.nanargmax(values))
            accuracy = float(accuracies[choice])
            lost = float(accuracies.max()) - accuracy
            result[name] = {"choice": choice, "accuracy": accuracy, "regret": lost}
    return result
