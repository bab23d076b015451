from collections.abc import Mapping, Sequence

import numpy as np


def regret(
    scores: Mapping[str, Sequence[float]], oracle: Sequence[float]
) -> dict[str, dict[str, float]]:
    """Tells what it costs to choose a checkpoint by each score.

    - `choice = argmax of the score`, the earliest of equals
    - `accuracy = oracle[choice]`
    - `regret = max(oracle) - accuracy`, at least 0

    Each choice is made before the oracle is looked at. A score of NaN is never chosen.

    Args:
        scores: Of each score, its values by checkpoint; higher is better.
        oracle: Accuracy on the target by checkpoint.

    Returns:
        `choice`, the index of the checkpoint, `accuracy` and `regret` of each score.

    Raises:
        ValueError: If there are no checkpoints, their numbers differ, a score is NaN for all of
            them, or the oracle holds what is no number.

    Example:

    >>> from dann.selection import regret
    >>> regret({"entropy": [-0.9, -0.1, -0.3]}, oracle=[0.5, 0.25, 0.75])
    {'entropy': {'choice': 1, 'accuracy': 0.25, 'regret': 0.5}}
    """
    choices = {name: _choice(name, values) for name, values in scores.items()}
    accuracies = np.asarray(oracle, "float64")
    if accuracies.ndim != 1 or not len(accuracies) or not np.isfinite(accuracies).all():
        raise ValueError(f"Expected an accuracy of each checkpoint. Received: oracle={oracle}")
    result = {}
    for name, choice in choices.items():
        if len(scores[name]) != len(accuracies):
            raise ValueError(
                f"Score {name!r} and the oracle must be of the same checkpoints. "
                f"Received: {len(scores[name])} and {len(accuracies)}"
            )
        accuracy = float(accuracies[choice])
        lost = float(accuracies.max()) - accuracy
        result[name] = {"choice": choice, "accuracy": accuracy, "regret": lost}
    return result


def _choice(name, values):
    values = np.asarray(values, "float64")
    if np.isnan(values).all():
        raise ValueError(f"Score {name!r} must have a number to choose by. Received: {values}")
    return int(np.nanargmax(values))
