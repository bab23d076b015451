"""How far independent trainings agree on the target's classes."""

from collections.abc import Sequence

import numpy as np


def agreement(predictions: Sequence[np.ndarray]) -> list[float]:
    """Scores checkpoints of several trainings by their agreement on the target.

    With the classes `c_i` that checkpoint `i` predicts for the `n` examples of the target, for each
    of the `m` checkpoints:

    - `1 / (m - 1) sum over j != i of mean over the target of [c_i(x) = c_j(x)]`, in [0, 1]

    Wrong predictions differ more between trainings than right ones. Unlike the other scores it does
    not reward a model that is certain of the wrong classes, unless most of the others are wrong in
    the same way. The trainings should differ in seed or settings, and three are the fewest that it
    can tell apart: two agree equally with each other.

    Args:
        predictions: Classes `(n,)` or logits `(n, num_classes)` of the same target examples, by
            checkpoint; at least two.

    Returns:
        The score of each checkpoint; higher is better.

    Raises:
        ValueError: If there are fewer than two checkpoints, or they have different numbers of
            examples, or none.

    Example:

    >>> from dann.selection import agreement
    >>> agreement([[0, 1, 2, 2], [0, 1, 2, 1], [0, 1, 1, 0]])
    [0.625, 0.625, 0.5]

    Reference:
        - [Jiang et al., 2022](https://arxiv.org/abs/2106.13799): two trainings disagree about as
          often as either is wrong.
    """
    arrays = [np.asarray(values) for values in predictions]
    classes = [values.argmax(axis=1) if values.ndim == 2 else values for values in arrays]
    shapes = sorted({values.shape for values in classes})
    if len(classes) < 2 or len(shapes) > 1 or len(shapes[0]) != 1 or not shapes[0][0]:
        raise ValueError(
            "Expected classes `(n,)` or logits `(n, num_classes)` of at least two checkpoints for "
            f"the same examples. Received: shapes {[values.shape for values in arrays]}"
        )
    stacked = np.stack(classes)
    alike = np.array([(stacked == one).mean(axis=1) for one in stacked])
    return ((alike.sum(axis=1) - 1) / (len(classes) - 1)).tolist()
