"""Recommends which of several trained runs to keep, without target labels."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from dann.data.probes import TOO_FEW_EXAMPLES, Separation, name_alignment, probe_domains
from dann.selection.outputs import Outputs

DISTILLED_AVERAGE = "distilled_average"  # the setting of a network that `distill` trained


class Recommendation(NamedTuple):
    """The run to keep, and the reasons.

    Attributes:
        setting: Name of a candidate.
        run: Identifier of its run: the position for `recommend`, otherwise what the caller passed.
        reasons: Lines of text.
        average: Mean class probabilities of the target over the candidates `(n, num_classes)`, for
            `dann.training.distill`. `None` if fewer than two candidates adapt, if no shift is
            visible, and in regression.
    """

    setting: str
    run: Any
    reasons: tuple[str, ...]
    average: np.ndarray | None = None

    @property
    def key(self) -> tuple[str, Any]:
        """The setting and the run."""
        return self.setting, self.run


def recommend(
    candidates: Mapping[str, Sequence[Outputs]], source_only: str = "source_only"
) -> Recommendation:
    """Recommends which run of several candidates to keep. It reads no target labels.

    1. If a newly trained probe cannot separate the domains by the features of the source-only
       model, because the 95% interval of its accuracy contains 0.5, there is no visible shift, or
       there are too few examples to tell, and only source-only runs remain.
    2. Otherwise, the run whose classes on the target agree best with the average over all runs
       except source only is recommended; see `find_closest_to_average`. The average makes fewer
       errors if the runs make different errors. In our tests, one run had two thirds of its gain,
       and a network that `dann.training.distill` trained on `average` had 85%.
       In regression, the run with the smallest mean squared distance is recommended.

    The page "Experiments" compares this rule with other rules.

    Args:
        candidates: The result of `dann.selection.compute_outputs` for each run, on the same
            examples, by name of the candidate. All runs need `target_logits`. The first run of
            `source_only` also needs `source_features` of held-out examples and `target_features`.
        source_only: Name of the candidate that was trained on the source alone.

    Raises:
        KeyError: If there is no such candidate.

    Example:

    >>> import dann, keras, numpy as np
    >>> from dann.selection import compute_outputs, recommend
    >>> inputs = keras.Input((3,))
    >>> backbone = keras.Model(inputs, keras.layers.Identity()(inputs))
    >>> model = dann.SourceOnly(backbone, label_head=keras.layers.Identity())
    >>> x = np.random.default_rng(0).normal(size=(400, 3)).astype("float32")
    >>> source = x, np.zeros(400, int)
    >>> similar, shifted = (compute_outputs(model, source=source, target=x + d) for d in (0, 5))
    >>> recommend({"source_only": [similar], "dann": [similar]}).setting
    'source_only'
    >>> dissenting = shifted._replace(target_logits=-shifted.target_logits)
    >>> recommend({"source_only": [shifted], "dann": [dissenting, shifted, shifted]}).key
    ('dann', 1)
    """
    baseline = candidates[source_only][0]
    probe = probe_domains(baseline.source_features, baseline.target_features)
    probabilities = {
        (name, number): to_probabilities(run.target_logits)
        for name, runs in candidates.items()
        for number, run in enumerate(runs)
    }
    return recommend_run(probe, probabilities, [source_only])


def to_probabilities(logits: np.ndarray) -> np.ndarray:
    """Returns the softmax of logits `(n, num_classes)`, or the numbers of one output `(n, 1)`."""
    return logits if logits.shape[1] == 1 else special.softmax(logits, axis=1)


def recommend_run(
    probe: Separation | None,
    probabilities: Mapping[tuple[str, Any], np.ndarray],
    source_only: Sequence[str] = ("source_only",),
) -> Recommendation:
    """Returns the recommendation of `recommend` from its measurements.

    Args:
        probe: Result of `dann.data.probes.probe_domains` on the features of the source-only model.
            If it is `None`, a shift is assumed.
        probabilities: Class probabilities of the target `(n, num_classes)`, or numbers `(n, 1)`
            in regression, by name of the candidate and run.
        source_only: Names of the candidates that were trained on the source alone.
    """
    reasons = []
    if probe is not None:
        reasons.append(
            f"a new probe separates the domains with an accuracy of {probe.accuracy:.1%} (chance "
            f"50%, 95% interval {probe.low:.1%} to {probe.high:.1%})"
        )
    baselines = [key for key in probabilities if key[0] in source_only]
    adapted = [key for key in probabilities if key[0] not in source_only]
    runs = adapted or baselines  # runs on the source alone do not join the average of others
    if probe is not None and probe.low <= 0.5:
        is_unknown = name_alignment(probe.low, probe.high) == "undetermined"
        reason = TOO_FEW_EXAMPLES if is_unknown else "there is no visible shift"
        reasons[0] += f": {reason}, so keep {source_only[0]}"
        runs, adapted = baselines, []
        if not runs:
            return Recommendation(source_only[0], None, tuple(reasons))
    values = [probabilities[key] for key in runs]
    name, run = runs[find_closest_to_average(values)]
    average = None
    is_regression = values[0].shape[1] == 1
    if len(runs) > 1:
        reasons.append(
            f"of {len(runs)} runs, this run agrees best with the average of their "
            f"{'predictions' if is_regression else 'class probabilities'}"
        )
        average = np.mean(values, axis=0) if adapted and not is_regression else None
    return Recommendation(name, run, tuple(reasons), average)


def recommend_distilled(recommendation: Recommendation, run: str, steps: int) -> Recommendation:
    """Returns the recommendation of a network that `dann.training.distill` trained.

    Args:
        recommendation: The recommendation of one of the runs.
        run: Name of the run of the network.
        steps: Number of steps.
    """
    training = f"a new network was trained for {steps} steps"
    reason = f"{training} to predict the average of all runs that adapt"
    reasons = *recommendation.reasons[:-1], reason  # the last reason is for the run
    return Recommendation(DISTILLED_AVERAGE, run, reasons)


def find_closest_to_average(probabilities: Sequence[np.ndarray]) -> int:
    """Returns the position of the run that agrees best with the classes of the average.

    With the probabilities `p_r(x)` of run `r`, the earliest run is returned that maximizes

    - `mean over x of [argmax p_r(x) = argmax of mean over s of p_s(x)]`

    In regression, the run is returned that minimizes `mean over x of (p_r(x) - mean_s p_s(x))^2`.

    Args:
        probabilities: Class probabilities `(n, num_classes)`, or numbers `(n, 1)`, of each run for
            the same examples.
    """
    stacked = np.stack(probabilities)  # (runs, n, classes)
    if stacked.shape[2] == 1:
        return int(np.square(stacked - stacked.mean(axis=0)).mean(axis=(1, 2)).argmin())
    # (runs, n): whether a run predicts the class of the average
    agrees = stacked.argmax(axis=2) == stacked.mean(axis=0).argmax(axis=1)
    return int(agrees.mean(axis=1).argmax())
