"""The live discriminator compared with a fresh one, a probe."""

import warnings
from typing import Any

import numpy as np
from scipy import stats
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from dann.checks import check_choice
from dann.diagnostics.outputs import matched_source, pair_outputs

LEAST = 4  # examples of a domain
_DECAY = 0.01  # of the weights; see `fresh_probe`


def discriminator_vs_probe(
    model: Any, data: Any, *, probe: str = "logistic", seed: int = 0
) -> dict[str, float]:
    """Measures the live discriminator beside a fresh one that is trained on the features.

    A discriminator at chance means aligned features, or a dead discriminator. A fresh classifier,
    trained on half of the frozen features and tested on the other half, is at chance only in the
    first case.

    - `domain/loss`, `domain/accuracy`, `domain/spread`: cross-entropy and accuracy of the live
      discriminator, each the mean of both domains', and the deviation of its logits. They are
      missing for methods without a discriminator of domains.
    - `probe/loss`, `probe/accuracy`: the same of the fresh one, see `fresh_probe`; `probe/low`,
      `probe/high`, the ends of Wilson's 95% interval of the accuracy; `probe/a_distance`, see
      `proxy_a_distance`
    - `probe/matched_loss`, `probe/matched_accuracy`: the same with source examples drawn in the
      class shares that the model predicts for the target

    Args:
        data: As in every diagnostic; the probe needs a hundred examples of each domain or more.
        probe: `"logistic"` (default), or `"mlp"` for differences that are not linear.

    The other arguments are those of every diagnostic; see `dann.diagnostics.catalogue`.

    Raises:
        ValueError: If a domain has fewer than 4 examples, or the probe is unknown.

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), equation 3 and section
          5.1.4.
    """
    outputs = pair_outputs(model, data)
    measured = {} if outputs.domain is None else _of_discriminator(**outputs.domain)
    source, target = outputs.features["source"], outputs.features["target"]
    accuracy, loss = fresh_probe(source, target, probe, seed)
    low, high = _interval(accuracy, len(source) // 2, len(target) // 2)
    measured |= {"probe/accuracy": accuracy, "probe/low": low, "probe/high": high}
    measured["probe/loss"] = loss
    measured["probe/a_distance"] = _distance(accuracy)
    matched, found = source[matched_source(outputs, seed)], (1.0, 0.0)
    if len(matched) >= LEAST:
        found = fresh_probe(matched, target, probe, seed)
    return measured | {"probe/matched_accuracy": found[0], "probe/matched_loss": found[1]}


def _interval(accuracy, *sizes):
    """The interval of a mean of two accuracies, as of so many examples with the same variance."""
    if np.isnan(accuracy):
        return np.nan, np.nan
    count = round(4 / sum(1 / size for size in sizes))
    found = stats.binomtest(round(accuracy * count), count).proportion_ci(method="wilson")
    return float(found.low), float(found.high)


def _of_discriminator(source, target):
    losses = np.logaddexp(0, source).mean(), np.logaddexp(0, -target).mean()
    return {
        "domain/loss": float(np.mean(losses)),
        "domain/accuracy": float(np.mean([(source < 0).mean(), (target > 0).mean()])),
        "domain/spread": float(np.concatenate([source, target]).std(axis=0).max()),
    }


def fresh_probe(
    source: np.ndarray, target: np.ndarray, probe: str = "logistic", seed: int = 0
) -> tuple[float, float]:
    """Trains a classifier of domains on half of the features and tests it on the other half.

    The features are divided by one number, the root of their mean variance, and the classifier
    minimizes `mean cross-entropy + .01 ||w||^2 / 2`, so its slope is bounded. A difference that is
    tiny beside the features' spread, along a direction with hardly any variance left, hardly
    changes the loss, though the accuracy may see it.

    Args:
        source: Features `(n, d)` of the source, at least 4.
        target: Features `(m, d)` of the target, at least 4.
        probe: `"logistic"` (default), a logistic regression, or `"mlp"`, one hidden layer of 64
            units, which also sees differences that are not linear and needs more examples.
        seed: Seed of the halves, and of the network.

    Returns:
        On the held-out half the mean of both domains' accuracies, .5 if the features do not
        separate the domains; and the mean of both domains' cross-entropies in nats, then `log 2 =
        .693`. Both are NaN if features are not finite.

    Raises:
        ValueError: If the probe is unknown, or a domain has too few examples.
    """
    check_choice("probe", probe, ("logistic", "mlp"))
    if min(len(source), len(target)) < LEAST:
        raise ValueError(
            f"A probe needs at least {LEAST} examples of each domain. Received: "
            f"{len(source)} of the source, {len(target)} of the target"
        )
    if not (np.isfinite(source).all() and np.isfinite(target).all()):
        return np.nan, np.nan
    rng = np.random.default_rng(seed)
    shuffled = [values[rng.permutation(len(values))] for values in (source, target)]
    train, test = zip(*(np.array_split(values, 2) for values in shuffled), strict=True)
    both = np.concatenate(train)
    center, scale = both.mean(axis=0), np.sqrt(both.var(axis=0).mean()) or 1.0
    taught, labels = _balanced([(part - center) / scale for part in train], rng)
    # scikit-learn sums the losses of all examples; the decay is meant for their mean.
    alpha = _DECAY * len(labels)
    classifier: Any = LogisticRegression(C=1 / alpha, max_iter=1000)
    if probe == "mlp":
        classifier = MLPClassifier(
            (64,), solver="lbfgs", alpha=alpha, max_iter=300, random_state=seed
        )
    # On shared cores its threads would wait for each other in a busy loop.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a probe need not be exact
        classifier.fit(taught, labels)
    chances = [np.asarray(classifier.predict_proba((x - center) / scale))[:, 1] for x in test]
    right = [np.mean(chances[0] < 0.5), np.mean(chances[1] >= 0.5)]
    shares = 1 - chances[0], chances[1]
    losses = [-np.mean(np.log(np.maximum(share, 1e-12))) for share in shares]
    return float(np.mean(right)), float(np.mean(losses))


def _balanced(parts, rng):
    """Returns both domains, the smaller drawn up to the larger's size, and labels 0 and 1."""
    size = max(len(part) for part in parts)
    drawn = [
        part if len(part) == size else part[rng.integers(len(part), size=size)] for part in parts
    ]
    return np.concatenate(drawn), np.repeat([0, 1], size)


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
    return _distance(fresh_probe(np.asarray(source), np.asarray(target), probe, seed)[0])


def _distance(accuracy):
    return float(np.maximum(2 * (1 - 2 * (1 - accuracy)), 0.0))  # NaN stays NaN
