from typing import Any

import numpy as np

from dann.selection.outputs import check_labels_fit, check_source, check_target, logits


def source_accuracy(model: Any, *, source: Any, target: Any = None, batch_size: int = 256) -> float:
    """Scores a checkpoint by its accuracy on held-out source examples.

    The baseline that every other score has to beat: it knows nothing of the target.

    - `mean over the source of [argmax logits(x) = y]`, in [0, 1]

    Args:
        model: `dann.adaptation.AdversarialModel`, or any Keras model from inputs to logits.
        source: Inputs and labels of source examples that the training does not see.
        target: Not used.
        batch_size: Inputs at a time. Defaults to `256`.

    Returns:
        The score; higher is better.

    Raises:
        TypeError: If `source` is no pair of arrays.
        ValueError: If a label is not among the model's classes, or a logit is not finite.
    """
    if target is not None:
        check_target(target)
    inputs, labels = check_source(source)
    values = logits(model, inputs, batch_size)
    check_labels_fit(labels, values.shape[1])
    return float(np.mean(values.argmax(axis=1) == labels))
