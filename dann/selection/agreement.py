"""How far trainings that differ in the seed agree on the target's classes."""

from collections.abc import Sequence

import numpy as np
from sklearn.metrics import cohen_kappa_score

from dann.selection.outputs import check_finite_outputs


def agreement(predictions: Sequence[np.ndarray]) -> list[float]:
    """Scores trainings with the same settings and other seeds by their agreement on the target.

    With the share `a` of target examples on which two trainings predict the same class, and the
    share `e` that two with their shares of classes would have by chance, Cohen's kappa is

    - `kappa = (a - e) / (1 - e)`, in [-1, 1]; 0 if both predict one and the same class for all

    The score of a training is its mean kappa with each of the others. Two trainings disagree about
    as often as one of them is wrong, if they are not wrong in the same way; settings that are tell
    nothing by it. Two trainings agree equally with each other; from three on the score also tells
    which of them is unlike the rest.

    Args:
        predictions: Classes, integers `(n,)`, or logits `(n, num_classes)` of 2 classes
            or more, of the same target examples, by training; at least two.

    Returns:
        The score of each training; higher is better.

    Raises:
        ValueError: If there are fewer than two trainings, they have different numbers of examples,
            or none, or a logit is not finite.

    Example:

    >>> from dann.selection import agreement
    >>> agreement([[0, 1, 0, 1], [0, 1, 0, 1], [0, 1, 1, 0]])
    [0.5, 0.5, 0.0]

    Reference:
        - [Cohen, 1960](https://doi.org/10.1177/001316446002000104).
        - [Jiang et al., 2022](https://arxiv.org/abs/2106.13799), theorem 4.1: the expected
          disagreement of two trainings is the expected error, if the ensemble is calibrated.
    """
    classes = np.stack([_classes(np.asarray(values)) for values in predictions])
    if classes.ndim != 2 or len(classes) < 2 or not classes.size:
        raise ValueError(
            "Expected classes `(n,)` or logits `(n, num_classes)` of at least two trainings. "
            f"Received: {classes.shape}"
        )
    kappas = np.array([[_kappa(one, other) for other in classes] for one in classes])
    np.fill_diagonal(kappas, 0)
    return (kappas.sum(axis=1) / (len(classes) - 1)).tolist()


def _classes(values):
    several = values.ndim == 2 and values.shape[1] > 1
    return check_finite_outputs("predictions", values).argmax(axis=1) if several else values


def _kappa(one, other):
    if np.array_equal(one, other):
        return float((one != one[0]).any())  # undefined by chance alone if there is one class
    return float(cohen_kappa_score(one, other))
