"""How much of a nuisance fresh probes still find in features."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight

from dann.adaptation.prediction import predict
from dann.data.probes import predict_held_out

_FOLDS, _DRAWS = 3, 1000
_PROBES = "linear", "forest", "network"
_LEAST = 4 * _FOLDS  # examples


class Leakage(NamedTuple):
    """How well a nuisance is found in features; `str` gives the verdict.

    Attributes:
        name: The nuisance.
        score: Balanced accuracy in [0, 1], of a number R², at most 1.
        low: Lower end of the 95% interval of the score.
        high: Upper end.
        chance: Score of one who does not see the features.
        probes: Score of each probe.
    """

    name: str
    score: float
    low: float
    high: float
    chance: float
    probes: dict[str, float]

    @property
    def is_detected(self) -> bool:
        """Whether the whole interval lies above chance."""
        return self.low > self.chance

    def __str__(self) -> str:
        interval = f"95% interval {self.low:.2g} to {self.high:.2g}"
        verdict = "still there" if self.is_detected else "not found"
        return f"{self.name}: {self.score:.2g} (chance {self.chance:.2g}, {interval}): {verdict}"


def leakage(
    model: Any,
    x: Any,
    nuisances: Mapping[str, Any],
    labels: Any = None,
    groups: Any = None,
    seed: int = 0,
) -> dict[str, Leakage]:
    """Measures how much of each nuisance is left in the features, with fresh probes.

    A linear model, a forest of 100 trees and a network of 64 hidden units learn the nuisance from
    the frozen features, on two thirds of the examples, and are tested on the last third; three
    times, so that each example is held out once. In each third counts the probe that is best on the
    other two. Give examples that the model was not trained on.

    - score of classes: the mean over their values of the share that is recognized, so that rare
      values count as much; chance is one over the number of values
    - score of a number: `R² = 1 - sum (n - found)^2 / sum (n - mean)^2`, held out; chance is 0
    - interval: 2.5 and 97.5% of 1000 bootstraps of the held-out examples, or of the groups, with
      the probes as they are. In 9 of 120 draws of 240 examples it found a coin that was not there.

    With `labels`, integers, there is also what the features tell beside the label: probes for each
    class, and their mean, weighted by the examples of the classes; chance likewise.

    Args:
        model: Model of `dann.adaptation`, of which the backbone gives the features; any other Keras
            model or layer that gives them; or features `(n, ...)`, which leave `x` unused.
        x: Inputs, array-likes of `n` examples.
        nuisances: By name `n` values: floating-point numbers are numbers, all else classes. A
            missing value is NaN, or -1 for a class.
        labels: Class of each example `(n,)`; those of -1 are left out. Defaults to `None`.
        groups: What must not be on both sides, such as the patient of each example `(n,)`. Defaults
            to `None`: every example by itself.
        seed: Seed of the parts, the probes and the bootstrap. Defaults to `0`.

    Returns:
        By name of the nuisance what was found, with `labels` also by `"<name> given the label"`.

    Raises:
        ValueError: If a nuisance has fewer than 12 known values, or one value alone.

    Example:

    >>> import numpy as np
    >>> from dann.diagnostics import leakage
    >>> features = np.random.default_rng(0).normal(size=(300, 2))
    >>> found = leakage(features, None, {"side": features[:, 0] > 0, "noise": np.arange(300) % 3})
    >>> found["side"].is_detected, found["noise"].is_detected
    (True, False)
    """
    features = _features(model, x)
    apart = {"": np.zeros(len(features), int)}
    if labels is not None:
        apart[" given the label"] = np.asarray(labels).reshape(-1)
    groups = np.arange(len(features)) if groups is None else np.asarray(groups)
    places: Any = np.unique(groups, return_inverse=True)[1]
    return {
        name + of: _measure(name + of, features, np.asarray(values), strata, places, seed)
        for name, values in nuisances.items()
        for of, strata in apart.items()
    }


def _features(model, x):
    if isinstance(model, keras.Layer):
        network: Any = getattr(model, "backbone", model)
        inputs = keras.tree.map_structure(np.asarray, x)
        model = predict(network, inputs)
    features = np.asarray(model, "float64")
    return features.reshape(len(features), -1)


def _measure(name, features, values, strata, groups, seed):
    """Each example has a size, and of it each probe gains a part; the score is their ratio."""
    is_number = values.dtype.kind == "f"
    known = strata != -1
    if values.dtype.kind in "if":
        known &= ~np.isnan(values) if is_number else values != -1
    gain, size, chance = np.zeros((3, len(values))), np.zeros(len(values)), np.zeros(len(values))
    fold = np.full(len(values), -1)
    for stratum in np.unique(strata[known]):
        rows = np.flatnonzero(known & (strata == stratum))
        told = values[rows]
        _, places, counts = np.unique(told, return_inverse=True, return_counts=True)
        if len(rows) < _LEAST or len(counts) < 2:
            continue
        told = (told - told.mean()) / told.std() if is_number else told  # as a network learns
        found, fold[rows] = _told(features[rows], told, groups[rows], is_number, seed)
        if is_number:
            size[rows] = told**2
            gain[:, rows] = size[rows] - (found - told) ** 2
        else:
            size[rows] = len(rows) / len(counts) / counts[places]
            gain[:, rows] = size[rows] * (found == told)
            chance[rows] = 1 / len(counts)
    held_out = fold >= 0
    if not held_out.any():
        raise ValueError(
            f"A probe needs at least {_LEAST} examples with more than one value of the nuisance. "
            f"Received: {known.sum()} of {name!r}"
        )
    chosen = [gain[:, held_out & (fold != one)].sum(axis=1).argmax() for one in range(_FOLDS)]
    best = gain[np.take(chosen, fold), np.arange(len(fold))]
    low, high = _interval(best[held_out], size[held_out], groups[held_out], seed)
    scores = gain.sum(axis=1) / size.sum()
    probes = {name: float(one) for name, one in zip(_PROBES, scores, strict=True)}
    score = float(best.sum() / size.sum())
    return Leakage(name, score, low, high, float(chance[held_out].mean()), probes)


def _told(features, values, groups, is_number, seed):
    """What each probe says of examples that it has not seen `(3, n)`, and the fold of each."""
    folds = GroupKFold(_FOLDS, shuffle=True, random_state=seed)
    fold = np.empty(len(values), int)
    for number, (_, test) in enumerate(folds.split(features, groups=groups)):
        fold[test] = number
    weights = np.ones(len(values)) if is_number else compute_sample_weight("balanced", values)
    given: Any = {"groups": groups, "params": {"probe__sample_weight": weights}}
    probes = _probes(is_number, seed)
    return np.stack(
        [predict_held_out(one, features, values, folds, **given) for one in probes]
    ), fold


def _probes(is_number, seed):
    forest: Any = {"min_samples_leaf": 3, "random_state": seed}
    network: Any = {"hidden_layer_sizes": (64,), "alpha": 1.0, "random_state": seed}
    network["learning_rate_init"] = 0.01  # with which it has learned after its 200 epochs
    if is_number:
        probes = Ridge(), RandomForestRegressor(**forest), MLPRegressor(**network)
    else:
        linear = LogisticRegression(max_iter=1000)
        probes = linear, RandomForestClassifier(**forest), MLPClassifier(**network)
    return [Pipeline([("scale", StandardScaler()), ("probe", one)]) for one in probes]


def _interval(gain, size, groups, seed):
    gain, size = (np.bincount(groups, each) for each in (gain, size))
    there = np.unique(groups)
    rng = np.random.default_rng(seed)
    drawn = (rng.choice(there, len(there)) for _ in range(_DRAWS))
    scores = [gain[rows].sum() / size[rows].sum() for rows in drawn]
    low, high = np.quantile(scores, [0.025, 0.975])
    return float(low), float(high)
