from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dann.selection.regret import regret
from dann.selection.scores import SCORES

NOT_COMPUTED = "not computed: the scores of the training do not name it"
NO_NUMBER = "no number at any checkpoint: the outputs of the model were not finite"


class Evaluation(NamedTuple):
    """What choosing by each score costs, and of which scores that cannot be told.

    Args:
        scores: Of each score what `dann.selection.regret` tells.
        left_out: Of each other score why it is not among them.
    """

    scores: dict[str, dict[str, float]]
    left_out: dict[str, str]


def evaluate(scores: Mapping[str, Sequence[float]], oracle: Sequence[float]) -> Evaluation:
    """Tells of every score what it costs to choose a checkpoint by it, or why that is not known.

    Left out are the scores of `dann.selection.SCORES` that are not given, and those that are NaN
    or infinite at every checkpoint. `dann.selection.score_checkpoints` gives all of checkpoints at
    hand, and `SelectionScores(tuple(dann.selection.SCORES), ...)` in `fit` all of every epoch.

    Args:
        scores: Of each score, its values by checkpoint; higher is better.
        oracle: Accuracy on the target by checkpoint.

    Returns:
        `scores`: `choice`, `accuracy` and `regret` of each score, see `dann.selection.regret`;
        `left_out`: the reason of each that has none of them.

    Raises:
        ValueError: If there are no checkpoints, their numbers differ, or the oracle holds what is
            no number.

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
