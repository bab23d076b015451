"""The label-free scores of a run, on examples of its domains."""

from typing import Any

import numpy as np

from dann.data import DomainPair
from dann.selection import SCORES, SelectionScores, choose
from dann.training.run_settings import check_selection


def selection_scores(domains: DomainPair, selection: Any, seed: int) -> SelectionScores | None:
    """Returns the callback that computes a run's scores, or `None` if it has none.

    Args:
        domains: The data. The scores use the source's test set and the target's training inputs.
        selection: Object with `scores`, `samples` and `keep`, as `Run` takes it, or `None`.
        seed: Seed of the choice of examples.

    Raises:
        ValueError: If a score is unknown, or if the two test sets are equal, because the scores
            would then see the target's labels.
    """
    if selection is None:
        return None
    check_selection(selection, list(SCORES))
    if not selection.scores:
        return None
    rng = np.random.default_rng(seed)

    def some(values):
        return np.sort(rng.permutation(len(values))[: selection.samples])

    inputs, labels = domains.source_test
    chosen = some(labels)
    _check_tests_differ(domains, chosen)
    source = inputs[chosen], labels[chosen]
    target = domains.target_train
    return SelectionScores(list(choose(selection.scores)), source, target[some(target)])


def _check_tests_differ(domains, chosen):
    (source, _), (target, _) = domains.source_test, domains.target_test
    if len(source) == len(target) and np.array_equal(source[chosen], target[chosen]):
        raise ValueError(
            "Scores read the labels of the source's test set, so the target must have another; "
            "use selection=none. Received: the same test set for both domains"
        )
