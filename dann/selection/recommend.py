"""Recommends which of several trained candidates to keep, without target labels."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from scipy import special

from dann.data.probes import Separation, probe_domains
from dann.selection.outputs import Outputs

AVERAGE = "average"
# A discriminator above this accuracy separates the domains: the features are not aligned.
MAX_DOMAIN_ACCURACY = 0.97


class Recommendation(NamedTuple):
    """The candidate to keep, and the reasons.

    Attributes:
        choice: Name of a candidate, or `"average"` for the mean class probabilities of all
            candidates.
        reasons: Lines of text.
    """

    choice: str
    reasons: tuple[str, ...]


def suggest_source_only(
    *,
    probe: Separation | None = None,
    info_max: float | None = None,
    source_only_info_max: float | None = None,
    domain_accuracy: float | None = None,
) -> str | None:
    """Returns a reason to keep the source-only model instead of an adapted one, or `None`.

    This is the only rule about the source-only model in this package. It reads no target labels, so
    it can be wrong. Either of these signs is a reason:

    - There is no shift: the 95% interval of the accuracy of a newly trained domain probe on the
      features of the source-only model contains 0.5.
    - The adaptation failed: the adapted model has a lower InfoMax than the source-only model, and
      its discriminator still separates the domains, with an accuracy above 0.97. Either of the two
      alone also occurs where the method helps.

    Arguments that are `None` were not measured.

    Args:
        probe: Result of `dann.selection.probe_domains` on the features of the source-only model.
        info_max: InfoMax of the adapted model, in nats.
        source_only_info_max: InfoMax of the source-only model, in nats.
        domain_accuracy: Accuracy of the discriminator of the adapted model, in [0, 1].

    Example:

    >>> from dann.selection import suggest_source_only
    >>> scores = {"info_max": 1.9, "source_only_info_max": 2.0}
    >>> suggest_source_only(**scores, domain_accuracy=0.7) is None
    True
    >>> suggest_source_only(**scores, domain_accuracy=0.99)[:40]
    'because its InfoMax is 2.00 against 1.90'
    """
    if (
        info_max is not None
        and source_only_info_max is not None
        and info_max < source_only_info_max
        and domain_accuracy is not None
        and domain_accuracy > MAX_DOMAIN_ACCURACY
    ):
        return (
            f"because its InfoMax is {source_only_info_max:.2f} against {info_max:.2f} and the "
            f"discriminator still separates the domains ({domain_accuracy:.0%})"
        )
    if probe is not None and probe.low <= 0.5:
        return "because there is no visible shift: a probe cannot separate the domains"
    return None


def recommend(
    candidates: Mapping[str, Sequence[Outputs]], source_only: str = "source_only"
) -> Recommendation:
    """Recommends which of several candidates to keep. It reads no target labels.

    1. If a newly trained probe cannot separate the domains by the features of the source-only
       model, there is no visible shift, and the source-only model is recommended; see
       `suggest_source_only`.
    2. Otherwise, the mean class probabilities of all runs of all candidates, including source only,
       are recommended. Averaging reduces errors if the candidates make different mistakes.

    docs/when-to-adapt.md compares this rule with other rules, on tasks that were not used to choose
    it.

    Args:
        candidates: The result of `dann.selection.compute_outputs` for each run, on the same
            examples, by name of the candidate. All runs need `target_logits`. The runs of
            `source_only` also need `source_features` of held-out examples and `target_features`.
        source_only: Name of the candidate that was trained on the source alone.

    Raises:
        KeyError: If there is no such candidate.

    Example:

    >>> import numpy as np
    >>> from dann.selection import Outputs, recommend
    >>> x = np.random.default_rng(0).normal(size=(400, 3))
    >>> similar = Outputs(x, target_features=x, source_features=x)
    >>> recommend({"source_only": [similar], "dann": [Outputs(x)]}).choice
    'source_only'
    >>> shifted = similar._replace(source_features=x + 5)
    >>> recommend({"source_only": [shifted], "dann": [Outputs(x)]}).choice
    'average'
    """
    classes = {
        name: average_logits([run.target_logits for run in runs]).argmax(axis=1)
        for name, runs in candidates.items()
    }
    baseline, baseline_classes = candidates[source_only][0], classes.pop(source_only)
    disagreement = {
        name: float(np.mean(predicted != baseline_classes)) for name, predicted in classes.items()
    }
    probe = probe_domains(baseline.source_features, baseline.target_features)
    return recommend_by_probe(probe, disagreement, source_only)


def recommend_by_probe(
    probe: Separation, disagreement: Mapping[str, float], source_only: str = "source_only"
) -> Recommendation:
    """Returns the recommendation of `recommend` from its measurements.

    Args:
        probe: Result of `dann.selection.probe_domains` on the features of the source-only model.
        disagreement: By candidate, the share of target examples on which its class differs from the
            class of the source-only model, in [0, 1].
        source_only: Name of the candidate that was trained on the source alone.
    """
    measured = (
        f"a new probe separates the domains with an accuracy of {probe.accuracy:.1%} (chance "
        f"50%, 95% interval {probe.low:.1%} to {probe.high:.1%})"
    )
    if suggest_source_only(probe=probe):
        reason = f"{measured}: there is no visible shift, so keep {source_only}"
        return Recommendation(source_only, (reason,))
    reasons = [f"{measured}: there is a shift"]
    for name, share in disagreement.items():
        reasons.append(f"{name} differs from {source_only} on {share:.1%} of the target")
    reasons.append(
        f"the mean class probabilities of all runs, including {source_only}, are more robust than "
        "a single run"
    )
    return Recommendation(AVERAGE, tuple(reasons))


def average_logits(logits: Sequence[np.ndarray]) -> np.ndarray:
    """Returns the logarithm of the mean softmax of several logits `(n, num_classes)`."""
    log_probabilities = np.stack([special.log_softmax(values, axis=1) for values in logits])
    return special.logsumexp(log_probabilities, axis=0) - np.log(len(log_probabilities))


def average_classifiers(classifiers: Sequence[Any]) -> Any:
    """Returns one Keras model that averages the class probabilities of several classifiers.

    Args:
        classifiers: Functional models with the same inputs that return logits, such as the
            `classifier` of each method. Their weights are copied.

    Returns:
        A functional model from inputs to probabilities `(batch, num_classes)`.
    """
    inputs = keras.tree.map_structure(
        lambda part: keras.Input(batch_shape=part.shape, dtype=part.dtype), classifiers[0].input
    )
    probabilities = []
    for number, classifier in enumerate(classifiers):
        config = {**classifier.get_config(), "name": f"classifier_{number}"}  # unique in a model
        copy = type(classifier).from_config(config)
        copy.set_weights(classifier.get_weights())
        softmax = keras.layers.Softmax(name=f"probabilities_{number}")
        probabilities.append(softmax(copy(inputs)))
    mean = keras.layers.Average()(probabilities) if len(classifiers) > 1 else probabilities[0]
    return keras.Model(inputs, mean, name=AVERAGE)
