"""Agreement between training runs that differ in the seed, on the classes of the target."""

from collections.abc import Sequence

import numpy as np
from sklearn.metrics import cohen_kappa_score

from dann.adaptation.prediction import check_finite_outputs


def agreement(predictions: Sequence[np.ndarray]) -> list[float]:
    """Scores runs with equal settings and different seeds by their agreement on the target.

    Let `a` be the fraction of target examples for which two runs predict the same class, and `e`
    the fraction expected by chance from their class proportions. Cohen's kappa is

    - `kappa = (a - e) / (1 - e)`, in [-1, 1]; 0 if both runs predict one class for all examples

    The score of a run is its mean kappa with the other runs. If runs make different mistakes, two
    runs disagree about as often as one of them is wrong. If they make the same mistakes, the score
    cannot show it. Two runs always agree equally with each other; with three or more runs, the
    score also shows which run differs from the rest.

    Args:
        predictions: Predictions of each run for the same target examples, at least two runs:
            classes, integers `(n,)`, or logits `(n, num_classes)` of at least 2 classes.

    Returns:
        The score of each run; higher is better.

    Raises:
        ValueError: If there are fewer than two runs or no examples, the numbers of examples differ,
            or a logit is not finite.

    Example:

    >>> from dann.selection import agreement
    >>> agreement([[0, 1, 0, 1], [0, 1, 0, 1], [0, 1, 1, 0]])
    [0.5, 0.5, 0.0]

    Reference:
        - [Cohen, 1960](https://doi.org/10.1177/001316446002000104).
        - [Jiang et al., 2022](https://arxiv.org/abs/2106.13799), theorem 4.1: the expected
          disagreement of two training runs is the expected error, if the ensemble is calibrated.
    """
    classes = np.stack([_to_classes(np.asarray(values)) for values in predictions])
    if classes.ndim != 2 or len(classes) < 2 or not classes.size:
        raise ValueError(
            "Expected classes `(n,)` or logits `(n, num_classes)` of at least two runs. "
            f"Received: predictions of shape {classes.shape}"
        )
    # (runs, runs)
    kappas = np.array([[_compute_kappa(first, second) for second in classes] for first in classes])
    np.fill_diagonal(kappas, 0)
    return (kappas.sum(axis=1) / (len(classes) - 1)).tolist()


def _to_classes(values):
    if values.ndim == 2 and values.shape[1] > 1:
        return check_finite_outputs("predictions", values).argmax(axis=1)
    return values


def _compute_kappa(first, second):
    if np.array_equal(first, second):
        # With a single class, kappa is 0 / 0: the runs agree by chance alone.
        return float((first != first[0]).any())
    return float(cohen_kappa_score(first, second))
