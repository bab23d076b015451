from typing import Any

import numpy as np

from dann.selection.predictions import check_target, source_logits
from dann.selection.scores import SCORES


@SCORES.register(
    "source_accuracy",
    summary="Accuracy on held-out source examples: the baseline.",
    reads="labelled source",
    cost="cheap",
)
def source_accuracy(model: Any, *, source: Any, target: Any = None, batch_size: int = 256) -> float:
    """Scores a checkpoint by its accuracy on held-out source examples.

    The baseline that every other score has to beat: it ignores the target.

    - `mean over the source of [argmax logits(x) = y]`, in [0, 1]

    Shared arguments and errors: see `dann.selection.compute_scores`.
    """
    if target is not None:
        check_target(model, target)
    _, labels, values = source_logits(model, source, batch_size)
    return float(np.mean(values.argmax(axis=1) == labels))
