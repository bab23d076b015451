"""Logistic regression on features, the classifier that some scores train."""

from collections.abc import Callable

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits


def fit_logistic(
    inputs: np.ndarray, labels: np.ndarray, num_classes: int
) -> Callable[[np.ndarray], np.ndarray]:
    """Fits a logistic regression on standardized inputs `(n, d)` and integer labels `(n,)`.

    If all labels are equal, so is every prediction. `labels` need not hold all classes.

    Returns:
        A function from inputs `(m, d)` to the probabilities of the classes `(m, num_classes)`.
    """
    present = np.unique(labels)
    if len(present) == 1:
        return lambda others: np.tile(np.eye(num_classes)[present[0]], (len(others), 1))
    regression = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-6, max_iter=10_000))
    # On shared cores its threads would wait for each other in a busy loop.
    with threadpool_limits(1):
        regression.fit(inputs, labels)

    def predict(others):
        chances = np.zeros((len(others), num_classes))
        chances[:, present] = regression.predict_proba(others)
        return chances

    return predict
