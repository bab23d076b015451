"""How far trainings that differ in the seed agree on the target's classes."""

from collections.abc import Sequence

import numpy as np


def agreement(predictions: Sequence[np.ndarray]) -> list[float]:
    """Scores trainings with the same settings and other seeds by their agreement on the target.

    With the classes `c_i` that training `i` predicts for the examples of the target, for each of
    `m` trainings:

    - `1 / (m - 1) sum over j != i of mean over the target of [c_i(x) = c_j(x)]`, in [0, 1]

    Two trainings disagree about as often as one of them is wrong, because they are seldom wrong in
    the same way. So the mean over the trainings tells good settings from bad ones, and unlike the
    other scores it does not reward certainty of the wrong classes. Two trainings agree equally with
    each other; from three on it also tells which of them is unlike the rest.

    Args:
        predictions: Classes `(n,)` or logits `(n, num_classes)` of the same target examples, by
            training; at least two.

    Returns:
        The score of each training; higher is better.

    Raises:
        ValueError: If there are fewer than two trainings, or they have different numbers of
            examples, or none.

    Example:

    >>> from dann.selection import agreement
    >>> agreement([[0, 1, 2, 2], [0, 1, 2, 1], [0, 1, 1, 0]])
    [0.625, 0.625, 0.5]

    Reference:
        - [Jiang et al., 2022](https://arxiv.org/abs/2106.13799), theorem 4.1: the expected
          disagreement of two trainings is the expected error, if the ensemble is calibrated.
    """
    arrays = [np.asarray(values) for values in predictions]
    classes = [values.argmax(axis=1) if values.ndim == 2 else values for values in arrays]
    shapes = sorted({values.shape for values in classes})
    if len(classes) < 2 or len(shapes) > 1 or len(shapes[0]) != 1 or not shapes[0][0]:
        raise ValueError(
            "Expected classes `(n,)` or logits `(n, num_classes)` of at least two trainings for "
            f"the same examples. Received: shapes {[values.shape for values in arrays]}"
        )
    stacked = np.stack(classes)
    alike = np.array([(stacked == one).mean(axis=1) for one in stacked])
    return ((alike.sum(axis=1) - 1) / (len(classes) - 1)).tolist()
