"""Fresh classifiers that show what can be told from features."""

import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from dann.checks import check_choice

FOLDS = 5
_MOST = 2000  # examples of each domain
_DECAY = 0.01  # of the weights; see `probe_domains`


class Separation(NamedTuple):
    """How well a probe tells two domains apart on examples that it was not trained on.

    Attributes:
        accuracy: In [0, 1]; .5 if the features do not separate the domains.
        low: Lower end of Wilson's 95% interval of the accuracy.
        high: Upper end.
        loss: Mean cross-entropy in nats; about `log 2 = .693` if they do not.
    """

    accuracy: float
    low: float
    high: float
    loss: float


def probe_domains(
    source: np.ndarray, target: np.ndarray, probe: str = "logistic", seed: int = 0
) -> Separation:
    """Measures how well a fresh classifier tells two domains apart, by 5-fold cross-validation.

    The features are divided by one number, the root of their mean variance, and the classifier
    minimizes `mean cross-entropy + .01 ||w||^2 / 2`, so its slope is bounded. A difference that is
    tiny beside the features' spread, along a direction with hardly any variance left, hardly
    changes the loss, though the accuracy may see it.

    Args:
        source: Features `(n, d)` of the source, at least 5. Equally many of each domain are drawn,
            and at most 2,000.
        target: Features `(m, d)` of the target, at least 5.
        probe: `"logistic"` (default), a logistic regression, or `"mlp"`, one hidden layer of 64
            units, which also sees differences that are not linear and needs more examples.
        seed: Seed of the draw, the folds and the network.

    Returns:
        Accuracy, the ends of its interval, and loss; NaN if features are not finite.

    Raises:
        ValueError: If the probe is unknown, or a domain has too few examples.

    Example:

    >>> import numpy as np
    >>> from dann.selection import probe_domains
    >>> points = np.linspace(0, 1, 50)[:, None]
    >>> probe_domains(points, points + 9).accuracy
    1.0
    """
    check_choice("probe", probe, ("logistic", "mlp"))
    rng, count = np.random.default_rng(seed), min(len(source), len(target), _MOST)
    if count < FOLDS:
        raise ValueError(
            f"A probe needs at least {FOLDS} examples of each domain. Received: {len(source)} of "
            f"the source, {len(target)} of the target"
        )
    features = np.concatenate([x[rng.permutation(len(x))[:count]] for x in (source, target)])
    if not np.isfinite(features).all():
        return Separation(*[np.nan] * 4)
    features = (features - features.mean(axis=0)) / (np.sqrt(features.var(axis=0).mean()) or 1.0)
    # scikit-learn sums the losses of all examples; the decay is meant for their mean.
    alpha, domain = _DECAY * 2 * count * (1 - 1 / FOLDS), np.repeat([0, 1], count)
    classifier: Any = LogisticRegression(C=1 / alpha, max_iter=1000)
    if probe == "mlp":
        network: Any = {"solver": "lbfgs", "alpha": alpha, "max_iter": 300, "random_state": seed}
        classifier = MLPClassifier((64,), **network)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    chances = predict_held_out(classifier, features, domain, folds, method="predict_proba")
    right = int(np.count_nonzero(chances.argmax(axis=1) == domain))
    interval = stats.binomtest(right, 2 * count).proportion_ci(method="wilson")
    loss = -np.log(np.maximum(chances[np.arange(2 * count), domain], 1e-12)).mean()
    return Separation(right / (2 * count), float(interval.low), float(interval.high), float(loss))


def predict_held_out(
    probe: Any, x: np.ndarray, y: np.ndarray, folds: Any, **settings: Any
) -> np.ndarray:
    """Returns what a scikit-learn estimator says of each example, trained on the other folds.

    Args:
        probe: The estimator.
        x: Features `(n, d)`.
        y: Values that it learns `(n,)`.
        folds: A splitter of scikit-learn.
        **settings: Further arguments of `sklearn.model_selection.cross_val_predict`.
    """
    # On shared cores its threads would wait for each other in a busy loop.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a probe need not be exact
        return np.asarray(cross_val_predict(probe, x, y, cv=folds, **settings))
