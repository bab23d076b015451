"""A fresh classifier that learns to separate the domains by frozen features."""

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from dann.checks import check_choice

PROBES = ("logistic", "mlp")
LEAST = 4  # examples of a domain
DECAY = 0.01  # of the weights; see `fresh_probe`


def fresh_probe(
    source: np.ndarray, target: np.ndarray, probe: str = "logistic", seed: int = 0
) -> dict[str, float]:
    """Trains a classifier of domains on half of the features and tests it on the other half.

    - `accuracy`: on the held-out half, the mean of both domains' accuracies; .5 if the features do
      not separate the domains
    - `loss`: the mean of both domains' cross-entropies, in nats; then `log 2 = .693`
    - `standard_error = sqrt((v_s + v_t) / 4)` of the accuracy at chance, with `v = 1 / (4 n)` for
      `n` held-out examples of a domain

    The features are divided by one number, the root of their mean variance, and the classifier
    minimizes `mean cross-entropy + .01 ||w||^2 / 2`, so its slope is bounded. A difference that is
    tiny beside the features' spread, along a direction with hardly any variance left, hardly
    changes the loss, though the accuracy may see it.

    If features are not finite, accuracy and loss are NaN.

    Args:
        source: Features `(n, d)` of the source, at least 4.
        target: Features `(m, d)` of the target, at least 4.
        probe: `"logistic"` (default), a logistic regression, or `"mlp"`, one hidden layer of 64
            units, which also sees differences that are not linear and needs more examples.
        seed: Seed of the halves, and of the network.

    Raises:
        ValueError: If the probe is unknown, or a domain has too few examples.
    """
    check_choice("probe", probe, PROBES)
    if min(len(source), len(target)) < LEAST:
        raise ValueError(
            f"A probe needs at least {LEAST} examples of each domain. Received: "
            f"{len(source)} of the source, {len(target)} of the target"
        )
    rng = np.random.default_rng(seed)
    shuffled = [values[rng.permutation(len(values))] for values in (source, target)]
    train, test = zip(*(np.array_split(values, 2) for values in shuffled), strict=True)
    deviation = float(np.sqrt(sum(1 / (4 * len(part)) for part in test) / 4))
    if not all(np.isfinite(part).all() for part in shuffled):
        return {"accuracy": np.nan, "loss": np.nan, "standard_error": deviation}
    center, scale = _center_and_scale(train)
    taught, labels = _balanced([(part - center) / scale for part in train], rng)
    classifier = _classifier(probe, len(labels), seed)
    # On shared cores its threads would wait for each other in a busy loop.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a probe need not be exact
        classifier.fit(taught, labels)
    chances = [np.asarray(classifier.predict_proba((x - center) / scale))[:, 1] for x in test]
    right = [np.mean(chances[0] < 0.5), np.mean(chances[1] >= 0.5)]
    shares = 1 - chances[0], chances[1]
    return {
        "accuracy": float(np.mean(right)),
        "loss": float(np.mean([-np.mean(np.log(np.maximum(share, 1e-12))) for share in shares])),
        "standard_error": deviation,
    }


def proxy_a_distance(source: Any, target: Any, probe: str = "logistic", seed: int = 0) -> float:
    """Returns the proxy A-distance of two sets of features.

    - `2 (1 - 2 e)`, with `e` the held-out error of a fresh classifier of domains, and 0 if `e`
      exceeds .5

    0 means that the classifier cannot tell the domains apart, 2 that it always can. The arguments
    are those of `fresh_probe`.

    Example:

    >>> import numpy as np
    >>> from dann.diagnostics import proxy_a_distance
    >>> points = np.linspace(0, 1, 50)[:, None]
    >>> proxy_a_distance(points, points + 9)
    2.0

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), equation 3.
    """
    features = np.asarray(source), np.asarray(target)
    return distance_of(fresh_probe(*features, probe, seed)["accuracy"])


def distance_of(accuracy: float) -> float:
    """Returns the proxy A-distance that belongs to a held-out accuracy."""
    return float(np.maximum(2 * (1 - 2 * (1 - accuracy)), 0.0))  # NaN stays NaN


def _center_and_scale(parts):
    both = np.concatenate(parts)
    scale = np.sqrt(both.var(axis=0).mean())
    return both.mean(axis=0), scale if scale > 0 else 1.0


def _balanced(parts, rng):
    """Returns both domains, the smaller drawn up to the larger's size, and labels 0 and 1."""
    size = max(len(part) for part in parts)
    drawn = [
        part if len(part) == size else part[rng.integers(len(part), size=size)] for part in parts
    ]
    return np.concatenate(drawn), np.repeat([0, 1], size)


def _classifier(probe, size, seed):
    # scikit-learn sums the losses of all examples; the decay is meant for their mean.
    if probe == "logistic":
        return LogisticRegression(C=1 / (DECAY * size), max_iter=1000)
    return MLPClassifier((64,), solver="lbfgs", alpha=DECAY * size, max_iter=300, random_state=seed)
