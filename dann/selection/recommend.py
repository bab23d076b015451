"""Which of several trained candidates to keep, the source alone among them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from scipy import special

from dann.data.probes import probe_domains
from dann.selection.outputs import Outputs

AVERAGE = "average"


class Recommendation(NamedTuple):
    """What to keep, and why.

    Attributes:
        choice: Name of a candidate, or `"average"`: the mean class probabilities of all of them.
        reasons: Lines of text.
    """

    choice: str
    reasons: tuple[str, ...]


def recommend(
    candidates: Mapping[str, Sequence[Outputs]], source_only: str = "source_only"
) -> Recommendation:
    """Recommends what to keep of several candidates. It reads no labels of the target.

    1. If a fresh probe cannot tell the domains apart by the features of the source-only model, no
       shift is seen, and that model is kept.
    2. Else the mean class probabilities of all runs of all candidates, source only included, are
       recommended. When some of them are wrong in their own way, the others outvote them.

    docs/when-to-adapt.md tells how it did on tasks that it was not chosen by, beside other rules.

    Args:
        candidates: By name, what `dann.selection.compute_outputs` returns for each run, on the same
            examples. They need `target_logits`; those of `source_only` also `source_features` of
            held-out examples and `target_features`.
        source_only: Name of the candidate that was trained on the source alone.

    Raises:
        KeyError: If there is no such candidate.

    Example:

    >>> import numpy as np
    >>> from dann.selection import Outputs, recommend
    >>> x = np.random.default_rng(0).normal(size=(400, 3))
    >>> alike = Outputs(x, target_features=x, source_features=x)
    >>> recommend({"source_only": [alike], "dann": [Outputs(x)]}).choice
    'source_only'
    >>> moved = alike._replace(source_features=x + 5)
    >>> recommend({"source_only": [moved], "dann": [Outputs(x)]}).choice
    'average'
    """
    classes = {
        name: mean_logits([run.target_logits for run in runs]).argmax(axis=1)
        for name, runs in candidates.items()
    }
    own, kept = candidates[source_only][0], classes.pop(source_only)
    unlike = {name: float(np.mean(found != kept)) for name, found in classes.items()}
    probe = probe_domains(own.source_features, own.target_features)
    return by_probe(probe, unlike, source_only)


def by_probe(
    probe: Any, unlike: Mapping[str, float], source_only: str = "source_only"
) -> Recommendation:
    """Returns what `recommend` does, of its measurements.

    Args:
        probe: Object with `accuracy`, `low` and `high`, such as what `probe_domains` returns for
            the features of the source-only model.
        unlike: By candidate, the share of the target's examples that it puts into another class
            than the source-only model.
        source_only: Name of the candidate that was trained on the source alone.
    """
    seen = (
        f"a probe tells the domains apart in {probe.accuracy:.1%} of examples (chance 50%, 95% "
        f"interval {probe.low:.1%} to {probe.high:.1%})"
    )
    if probe.low <= 0.5:
        return Recommendation(source_only, (f"{seen}: no shift is seen, keep {source_only}",))
    reasons = [f"{seen}: there is a shift"]
    for name, share in unlike.items():
        reasons.append(f"{name} differs from {source_only} on {share:.1%} of the target")
    reasons.append(
        f"the mean class probabilities of all runs, {source_only} too, seldom lose by the mistakes "
        "of one"
    )
    return Recommendation(AVERAGE, tuple(reasons))


def mean_logits(logits: Sequence[np.ndarray]) -> np.ndarray:
    """Returns the logarithm of the mean softmax of several logits `(n, num_classes)`."""
    logs = np.stack([special.log_softmax(one, axis=1) for one in logits])
    return special.logsumexp(logs, axis=0) - np.log(len(logs))


def average(classifiers: Sequence[Any]) -> Any:
    """Returns one Keras model of several classifiers: the mean of their class probabilities.

    Args:
        classifiers: Functional models of the same inputs that give logits, such as the `classifier`
            of each method. Their weights are copied.

    Returns:
        A functional model from inputs to probabilities `(batch, num_classes)`.
    """
    inputs = keras.tree.map_structure(
        lambda part: keras.Input(batch_shape=part.shape, dtype=part.dtype), classifiers[0].input
    )
    found = []
    for number, classifier in enumerate(classifiers):
        config = {**classifier.get_config(), "name": f"classifier_{number}"}  # unique in a model
        copy = type(classifier).from_config(config)
        copy.set_weights(classifier.get_weights())
        found.append(keras.layers.Softmax(name=f"probabilities_{number}")(copy(inputs)))
    mean = keras.layers.Average()(found) if len(found) > 1 else found[0]
    return keras.Model(inputs, mean, name=AVERAGE)
