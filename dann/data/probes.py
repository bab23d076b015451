"""Classifiers that are trained to measure the information in features."""

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
from dann.data.examples import InputSpec, check_matching_inputs, get_frame_columns

FOLDS = 5
_MAX_EXAMPLES = 2000  # per domain
MAX_ALIGNED_ACCURACY = 0.67  # of a domain probe, up to which the domains are aligned
MIN_SEPARATED_ACCURACY = 0.85  # of a domain probe, from which on they are separated
TOO_FEW_EXAMPLES = "too few examples, use at least 100 of each domain"
_DECAY = 0.01  # of the weights; see `probe_domains`


class Separation(NamedTuple):
    """Accuracy and loss of a probe that distinguishes two domains, on examples it did not see.

    Attributes:
        accuracy: In [0, 1]; 0.5 if the features do not separate the domains.
        low: Lower end of Wilson's 95% interval of the accuracy.
        high: Upper end of the interval.
        loss: Mean cross-entropy in nats; about `log 2 = 0.693` if the features do not separate the
            domains.
    """

    accuracy: float
    low: float
    high: float
    loss: float


def probe_domains(
    source: np.ndarray, target: np.ndarray, probe: str = "logistic", seed: int = 0
) -> Separation:
    """Measures how well a new classifier distinguishes two domains, by 5-fold cross-validation.

    The features are divided by one number, the root of their mean variance, and the classifier
    minimizes `mean cross-entropy + 0.01 ||w||^2 / 2`, which bounds its weights. A difference that
    is small compared with the spread of the features can therefore change the accuracy, but hardly
    the loss.

    Args:
        source: Features of the source `(n, d)`, at least 5. The same number of examples is drawn
            from each domain, at most 2,000.
        target: Features of the target `(m, d)`, at least 5.
        probe: `"logistic"` (default), a logistic regression; or `"mlp"`, one hidden layer of 64
            units, which also detects nonlinear differences and needs more examples.
        seed: Seed of the draw, the folds and the network.

    Returns:
        Accuracy, its interval, and loss; NaN if features are not finite.

    Raises:
        ValueError: If the probe is unknown, a domain has too few examples, or data frames differ in
            their columns.

    Example:

    >>> import numpy as np
    >>> from dann.data.probes import probe_domains
    >>> points = np.linspace(0, 1, 50)[:, None]
    >>> probe_domains(points, points + 9).accuracy
    1.0
    """
    check_choice("probe", probe, ("logistic", "mlp"))
    rng, count = np.random.default_rng(seed), min(len(source), len(target), _MAX_EXAMPLES)
    if count < FOLDS:
        raise ValueError(
            f"Expected at least {FOLDS} examples of each domain for a probe. Received: "
            f"{len(source)} source examples and {len(target)} target examples"
        )
    specs = [InputSpec("features", get_frame_columns(x)) for x in (source, target)]
    check_matching_inputs(specs[0], specs[1], "target")
    features = [np.asarray(x)[rng.permutation(len(x))[:count]] for x in (source, target)]
    features = np.concatenate(features)
    if not np.isfinite(features).all():
        return Separation(*[np.nan] * 4)
    # One divisor for all columns, so that columns of small variance stay small.
    features = (features - features.mean(axis=0)) / (np.sqrt(features.var(axis=0).mean()) or 1.0)
    # scikit-learn sums the losses of all training examples; `_DECAY` belongs to their mean.
    alpha, domain = _DECAY * 2 * count * (1 - 1 / FOLDS), np.repeat([0, 1], count)
    classifier: Any = LogisticRegression(C=1 / alpha, max_iter=1000)
    if probe == "mlp":
        network: Any = {"solver": "lbfgs", "alpha": alpha, "max_iter": 300, "random_state": seed}
        classifier = MLPClassifier((64,), **network)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    probabilities = predict_held_out(classifier, features, domain, folds, method="predict_proba")
    correct = int(np.count_nonzero(probabilities.argmax(axis=1) == domain))
    interval = stats.binomtest(correct, 2 * count).proportion_ci(method="wilson")
    # A confident mistake has a finite loss.
    loss = -np.log(np.maximum(probabilities[np.arange(2 * count), domain], 1e-12)).mean()
    return Separation(correct / (2 * count), float(interval.low), float(interval.high), float(loss))


def name_alignment(low: float, high: float) -> str:
    """Returns the verdict on the 95% interval of the accuracy of a domain probe.

    "aligned" if the interval ends at or below 67%; "not aligned" if it begins at or above 85%;
    otherwise "partly aligned", or "undetermined" if it contains 50%, as it may with fewer than 100
    examples of each domain.
    """
    if high <= MAX_ALIGNED_ACCURACY:
        return "aligned"
    if low >= MIN_SEPARATED_ACCURACY:
        return "not aligned"
    return "partly aligned" if low > 0.5 else "undetermined"


def predict_held_out(
    probe: Any, x: np.ndarray, y: np.ndarray, folds: Any, **settings: Any
) -> np.ndarray:
    """Returns the predictions of an estimator for each example, trained on the other folds.

    Args:
        probe: Estimator of scikit-learn.
        x: Features `(n, d)`.
        y: Values `(n,)` to predict.
        folds: Cross-validation splitter of scikit-learn.
        **settings: Further arguments of `sklearn.model_selection.cross_val_predict`.
    """
    # On shared cores, several threads would wait for each other in a busy loop.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a probe need not converge
        return np.asarray(cross_val_predict(probe, x, y, cv=folds, **settings))
