"""Measures how well newly trained probes find a nuisance in features."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold, PredefinedSplit, StratifiedGroupKFold
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight

from dann.data.nuisances import MAX_CLASSES, NUMBER
from dann.data.probes import predict_held_out
from dann.diagnostics.outputs import get_features

_FOLDS, _BOOTSTRAPS = 3, 1000
_PROBES = "linear", "forest", "network"
_MIN_EXAMPLES = 4 * _FOLDS


class Leakage(NamedTuple):
    """The accuracy of probes of a nuisance; `str` returns a sentence.

    Attributes:
        name: Name of the nuisance.
        score: Balanced accuracy in [0, 1]; for a number R², at most 1.
        low: Lower end of the 95% interval of the score.
        high: Upper end.
        chance: Score without the features.
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
        """True if the interval is above chance."""
        return self.low > self.chance

    def __str__(self) -> str:
        template = "balanced accuracy {:.0%} (chance {:.0%}, 95% interval {:.0%} to {:.0%})"
        if self.chance == 0:  # only for a number
            template = "R² {:.2f} (chance {:.0f}, 95% interval {:.2f} to {:.2f})"
        values = template.format(self.score, self.chance, self.low, self.high)
        return f"{self.name}: {values}: {'detected' if self.is_detected else 'not detected'}"


def leakage(
    model: Any,
    x: Any = None,
    nuisances: Mapping[str, Any] | None = None,
    labels: Any = None,
    groups: Any = None,
    seed: int = 0,
    kinds: Mapping[str, int | str] | None = None,
) -> dict[str, Leakage]:
    """Measures how well each nuisance is predicted from the features by newly trained probes.

    A linear model, a random forest of 100 trees and a network of 64 hidden units learn the nuisance
    from the features of two thirds of the examples and predict the last third, in 3 folds. Each
    fold uses the probe that scores best on the other two folds. Pass examples on which the model
    was not trained.

    - score of classes: mean over the classes of the fraction that is predicted correctly, so that
      rare classes count as much as frequent ones; chance is 1 divided by the number of classes
    - score of a number `v` with the predictions `p`: `R² = 1 - sum (v - p)^2 / sum (v - mean)^2`
      on held-out examples; chance is 0
    - interval: 2.5% and 97.5% quantiles of 1,000 bootstraps of the held-out examples, or of the
      groups, with fixed probes. With a random binary nuisance, the interval was above chance
      in 9 of 120 datasets of 240 examples (7.5%; nominally 2.5%).

    `labels` adds the leakage beyond the label: one set of probes per class, with their mean score,
    weighted by the number of examples of the class.

    Args:
        model: Model of `dann.adaptation`, whose backbone computes the features; any other Keras
            model or layer that computes features; or features `(n, ...)`, for which `x` is ignored.
        x: Inputs, array-likes of `n` examples.
        nuisances: `n` values by name, array-likes. A missing value is `None`, NaN or, for a class,
            -1.
        labels: Class of each example `(n,)`; examples with label -1 are ignored. Defaults to
            `None`.
        groups: Group of each example `(n,)`, such as the patient. A group is not split between
            training and test, so each class must occur in at least 3 groups. Defaults to `None`: no
            groups.
        seed: Seed of the folds, the probes and the bootstrap. Defaults to `0`.
        kinds: The number of classes of each nuisance by name, or `"number"`. Defaults to `None`:
            the `nuisances` of an `Invariant`; otherwise floating-point values are numbers, all
            other values classes.

    Returns:
        A `Leakage` by nuisance; with `labels` also by `"<name> given the label"`.

    Raises:
        TypeError: If `nuisances` is not a dict, or there are neither features nor inputs.
        ValueError: If a nuisance has fewer than 12 known values, only one distinct value, or a
            class in fewer than 3 examples or groups; if there is not one value per example; if it
            is not known whether whole floating-point values are classes or numbers.

    Example:

    >>> import numpy as np
    >>> from dann.diagnostics import leakage
    >>> features = np.random.default_rng(0).normal(size=(300, 2))
    >>> nuisances = {"side": features[:, 0] > 0, "noise": np.arange(300) % 3}
    >>> result = leakage(features, None, nuisances)
    >>> result["side"].is_detected, result["noise"].is_detected
    (True, False)
    """
    if not isinstance(nuisances, Mapping):
        raise TypeError(
            "Expected `leakage(model, inputs, nuisances)` or `leakage(features, None, nuisances)`, "
            "with a dict of values by name as `nuisances`, such as {'sex': sex}. Received: types "
            f"{', '.join(type(value).__name__ for value in (model, x, nuisances))}"
        )
    kinds = {**getattr(model, "nuisances", {}), **(kinds or {})}
    features = get_features(model, x)
    columns = {"labels": labels, "groups": groups, **nuisances}
    for name, values in columns.items():
        if values is not None and np.size(values) != len(features):
            raise ValueError(
                f"Expected one value of {name!r} for each of the {len(features)} examples. "
                f"Received: {np.size(values)} values"
            )
    strata = {"": np.zeros(len(features), int)}
    if labels is not None:
        strata[" given the label"] = _encode("labels", labels, MAX_CLASSES)[0]
    groups = np.arange(len(features)) if groups is None else np.asarray(groups).reshape(-1)
    group_numbers: Any = pandas.factorize(groups, sort=True, use_na_sentinel=False)[0]
    encoded = {name: _encode(name, values, kinds.get(name)) for name, values in nuisances.items()}
    return {
        name + suffix: _measure(
            name + suffix, features, values, classes, stratum_numbers, group_numbers, seed
        )
        for name, (values, classes) in encoded.items()
        for suffix, stratum_numbers in strata.items()
    }


def _encode(name, values, kind):
    """Returns numbers and `None`, or class numbers and classes; NaN or -1 where a value is missing.

    A table of pandas stores integers with a missing value as floating-point values, so the type
    does not determine whether whole values are classes or numbers.
    """
    column: Any = values if getattr(values, "ndim", 0) == 1 else np.asarray(values).reshape(-1)
    column = pandas.Series(column).astype("object").reset_index(drop=True)
    present: Any = column.dropna().infer_objects()
    if present.dtype.kind in "mM":
        raise ValueError(f"Expected {name!r} as a number, such as days. Received: {present.dtype}")
    is_float = present.dtype.kind == "f" and getattr(values, "dtype", None) != "category"
    if kind is None and is_float and present.nunique() <= MAX_CLASSES and (present % 1 == 0).all():
        raise ValueError(
            f"Expected `kinds` to state whether {name!r} are classes or numbers, because pandas "
            "stores classes with a missing value as floating-point values too. "
            f"Received: {sorted(present.unique().tolist())}. Pass "
            f"`kinds={{{name!r}: {present.nunique()}}}` or `kinds={{{name!r}: 'number'}}`"
        )
    if kind == NUMBER or (kind is None and is_float):
        if present.dtype.kind not in "biuf":
            raise ValueError(
                f"Expected numbers as values of {name!r}. Received: {present.unique()[:3].tolist()}"
            )
        return present.reindex(column.index).to_numpy("float64", na_value=np.nan), None
    if present.dtype.kind in "iuf":
        present = present[present != -1]
    numbers, classes = pandas.factorize(present, sort=True)
    numbers = pandas.Series(numbers, present.index).reindex(column.index, fill_value=-1)
    return numbers.to_numpy(), classes


def _measure(name, features, values, classes, strata, groups, seed):
    """Returns the leakage of one nuisance, with separate probes per stratum.

    Both scores are weighted ratios, `sum(numerator) / sum(denominator)`, over the held-out examples
    of all folds. The denominator of an example does not depend on the probe:

    - `K` classes: the denominator is the balanced weight `N / (K N_k)` of class `k`, with `N_k` of
      `N` examples, and the numerator is this weight if the prediction is correct, else 0
    - numbers `v` with mean 0 and predictions `p`: the denominator is `v^2`, and the numerator is
      `v^2 - (v - p)^2`

    For example, the classes 0, 0, 0, 1 with the predictions 0, 0, 1, 1 have the weights 2/3, 2/3,
    2/3 and 2, so the score is `(2/3 + 2/3 + 2) / 4 = 5/6`, the mean of 2/3 and 1.
    """
    is_number = classes is None
    has_value = (strata != -1) & ~(np.isnan(values) if is_number else values == -1)
    count = len(values)
    numerators = np.zeros((len(_PROBES), count))  # one row per probe
    denominators, chance = np.zeros(count), np.zeros(count)
    fold = np.full(count, -1)  # stays -1 for examples that no probe predicts
    for stratum in np.unique(strata[has_value]):
        rows = np.flatnonzero(has_value & (strata == stratum))
        in_groups = _is_in_groups(values[rows], groups[rows], is_number)
        if len(rows) >= _MIN_EXAMPLES and not (in_groups.all() or strata.any()):
            expected = f"{_FOLDS} groups, or {_MIN_EXAMPLES} if each group has a single number"
            received = f"{len(np.unique(groups[rows]))} groups"
            if not is_number:
                expected = f"each class in at least {_FOLDS} groups (without groups, examples)"
                rare = classes[np.unique(values[rows[~in_groups]])].tolist()
                received = f"too few groups of {rare[:5]}"
            raise ValueError(
                f"Cannot tell whether {name!r} is in the features. Expected {expected}. "
                f"Received: {received}"
            )
        rows = rows[in_groups]
        truth = values[rows]
        _, indices, counts = np.unique(truth, return_inverse=True, return_counts=True)
        if len(rows) < _MIN_EXAMPLES or len(counts) < 2:
            continue
        truth = (truth - truth.mean()) / truth.std() if is_number else truth  # for the network
        predictions, fold[rows] = _predict(features[rows], truth, groups[rows], is_number, seed)
        if is_number:  # R² = 1 - sum (v - p)^2 / sum v^2 at a mean of 0
            denominators[rows] = truth**2
            numerators[:, rows] = denominators[rows] - (predictions - truth) ** 2
        else:  # balanced accuracy: all classes have the same total weight
            denominators[rows] = len(rows) / len(counts) / counts[indices]
            numerators[:, rows] = denominators[rows] * (predictions == truth)
            chance[rows] = 1 / len(counts)
    held_out = fold >= 0
    if not held_out.any():
        raise ValueError(
            f"Expected at least {_MIN_EXAMPLES} examples with more than one value of the nuisance. "
            f"Received: {has_value.sum()} of {name!r}"
        )
    # The best probe of each fold is chosen on the other folds, so that the choice is not biased.
    best = [numerators[:, held_out & (fold != k)].sum(axis=1).argmax() for k in range(_FOLDS)]
    best_numerators = numerators[np.take(best, fold), np.arange(count)]  # (n,)
    ratio = best_numerators[held_out], denominators[held_out]
    low, high = _compute_interval(*ratio, groups[held_out], seed)
    scores = numerators.sum(axis=1) / denominators.sum()
    probes = {probe: float(score) for probe, score in zip(_PROBES, scores, strict=True)}
    score = float(best_numerators.sum() / denominators.sum())
    return Leakage(name, score, low, high, float(chance[held_out].mean()), probes)


def _is_in_groups(values, groups, is_number):
    """Returns whether the value of each example occurs in enough groups to be learned.

    Otherwise a probe that learned the value from some groups is never tested on other groups. For a
    number that is constant in each group, such as the age of a patient, groups are the examples.
    """
    pairs = np.unique(np.stack([values, groups]), axis=1)
    if is_number:
        is_enough = len(np.unique(pairs[1])) >= _FOLDS and pairs.shape[1] >= _MIN_EXAMPLES
        return np.full(len(values), is_enough)
    distinct, counts = np.unique(pairs[0], return_counts=True)
    return (counts >= _FOLDS)[np.searchsorted(distinct, values)]


def _predict(features, values, groups, is_number, seed):
    """Returns held-out predictions of each probe `(3, n)`, and the fold of each example `(n,)`."""
    fold = np.empty(len(values), int)
    # Random folds may put all groups of a class into one fold. The other splitter does not.
    for folds in (
        GroupKFold(_FOLDS, shuffle=True, random_state=seed),
        StratifiedGroupKFold(_FOLDS),
    ):
        for number, (_, test) in enumerate(folds.split(features, values, groups)):
            fold[test] = number
        if is_number or all(len(np.unique(fold[values == v])) > 1 for v in np.unique(values)):
            break
    weights = np.ones(len(values)) if is_number else compute_sample_weight("balanced", values)
    forest: Any = {"min_samples_leaf": 3, "random_state": seed}
    # At this learning rate the network converges within its 200 epochs.
    network: Any = {"hidden_layer_sizes": (64,), "alpha": 1.0, "learning_rate_init": 0.01}
    network["random_state"] = seed
    if is_number:
        probes = Ridge(), RandomForestRegressor(**forest), MLPRegressor(**network)
    else:
        linear = LogisticRegression(max_iter=1000)
        probes = linear, RandomForestClassifier(**forest), MLPClassifier(**network)
    pipelines = [Pipeline([("scale", StandardScaler()), ("probe", probe)]) for probe in probes]
    params = {"probe__sample_weight": weights}
    folds = PredefinedSplit(fold)
    predictions = [predict_held_out(p, features, values, folds, params=params) for p in pipelines]
    return np.stack(predictions), fold


def _compute_interval(numerators, denominators, groups, seed):
    """Returns the 95% interval of the score by a bootstrap of the groups."""
    # Sums per group, (groups,), because whole groups are drawn.
    numerators, denominators = (np.bincount(groups, v) for v in (numerators, denominators))
    numbers = np.unique(groups)
    rng = np.random.default_rng(seed)
    samples = (rng.choice(numbers, len(numbers)) for _ in range(_BOOTSTRAPS))
    scores = [numerators[rows].sum() / denominators[rows].sum() for rows in samples]
    low, high = np.quantile(scores, [0.025, 0.975])
    return float(low), float(high)
