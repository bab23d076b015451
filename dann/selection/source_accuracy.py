import numpy as np

from dann.selection.outputs import Outputs
from dann.selection.scores import SCORES


@SCORES.register("source_accuracy", reads="labelled source")
def source_accuracy(outputs: Outputs) -> float:
    """Scores a checkpoint by its accuracy on held-out source examples.

    The baseline that every other score has to beat: it ignores the target.

    - `mean over the source of [argmax logits(x) = y]`, in [0, 1]

    """
    return float(np.mean(outputs.source_logits.argmax(axis=1) == outputs.source_labels))
