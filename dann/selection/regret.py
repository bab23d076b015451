"""The cost of choosing a checkpoint by each score instead of the oracle."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dann.selection.scores import SCORES

NOT_COMPUTED = "not computed: the scores of the training do not name it"
NO_NUMBER = "no number at any checkpoint: the outputs of the model were not finite"


class Evaluation(NamedTuple):
    """The results of `dann.selection.regret` by score, and the reasons for missing ones."""

    scores: dict[str, dict[str, float]]
    left_out: dict[str, str]


def evaluate(scores: Mapping[str, Sequence[float]], oracle: Sequence[float]) -> Evaluation:
    """Reports the cost of choosing a checkpoint by each score, or why it is unknown.

    It leaves out the scores of `dann.selection.SCORES` that are missing from `scores`, and those
    that are NaN or infinite at every checkpoint. `dann.selection.score_checkpoints` computes all
    scores of given checkpoints; `SelectionScores(("all",), ...)` computes them after every epoch of
    `fit`.

    Arguments and errors: see `dann.selection.regret`.

    Example:

    >>> from dann.selection import evaluate
    >>> found = evaluate({"snd": [3.0, 1.0]}, oracle=[0.5, 0.75])
    >>> found.scores["snd"]["regret"], found.left_out["dev"]
    (0.25, 'not computed: the scores of the training do not name it')
    """
    left_out = {
        name: NO_NUMBER
        for name, values in scores.items()
        if len(values) and not np.isfinite(np.asarray(values, "float64")).any()
    }
    left_out |= {name: NOT_COMPUTED for name in SCORES if name not in scores}
    known = {name: values for name, values in scores.items() if name not in left_out}
    return Evaluation(regret(known, oracle), left_out)


def regret(
    scores: Mapping[str, Sequence[float]], oracle: Sequence[float]
) -> dict[str, dict[str, float]]:
    """Returns the cost of choosing a checkpoint by each score.

    - `choice = argmax of the score`, the earliest if several are equal
    - `accuracy = oracle[choice]`
    - `regret = max(oracle) - accuracy`, at least 0

    All choices are made before the oracle is used. A checkpoint whose score is NaN is never chosen.

    Args:
        scores: Values of each score by checkpoint; higher is better.
        oracle: Accuracy on the target by checkpoint.

    Returns:
        By score, `choice` (the index of the checkpoint), `accuracy` and `regret`.

    Raises:
        ValueError: If there are no checkpoints, their numbers differ, or a score is NaN for all.

    Example:

    >>> from dann.selection import regret
    >>> regret({"entropy": [-0.9, -0.1, -0.3]}, oracle=[0.5, 0.25, 0.75])
    {'entropy': {'choice': 1, 'accuracy': 0.25, 'regret': 0.5}}
    """
    choices = {name: int(np.nanargmax(values)) for name, values in scores.items()}
    accuracies = np.asarray(oracle, "float64")
    result = {}
    for name, choice in choices.items():
        if len(scores[name]) != len(accuracies):
            raise ValueError(
                f"Score {name!r} and the oracle must have a value for each checkpoint. "
                f"Received: {len(scores[name])} and {len(accuracies)}"
            )
        accuracy = float(accuracies[choice])
        lost = float(accuracies.max()) - accuracy
        result[name] = {"choice": choice, "accuracy": accuracy, "regret": lost}
    return result
