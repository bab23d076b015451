"""The label-free scores of a run, on examples of its domains."""

import hashlib
from typing import Any

import keras
import numpy as np

from dann.data import DomainPair
from dann.selection import SCORES, SelectionScores, choose
from dann.selection.predictions import logits
from dann.training.run_settings import check_selection

_BATCH = 256


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


def target_classes(model: Any, domains: DomainPair, samples: int) -> tuple[str, np.ndarray]:
    """Predicts the classes of some of the target's training inputs, the same ones in every run.

    Returns:
        A digest of the inputs, by which other runs on the same ones are found, and the classes.
    """
    target = domains.target_train
    chosen = np.sort(np.random.default_rng(0).permutation(len(target))[:samples])
    inputs = target[chosen]
    digest = hashlib.sha256()
    for part in map(np.asarray, keras.tree.flatten(inputs)):
        digest.update((part.astype(str) if part.dtype.hasobject else part).tobytes())
    return digest.hexdigest(), logits(model, inputs, _BATCH).argmax(axis=1)


def _check_tests_differ(domains, chosen):
    (source, _), (target, _) = domains.source_test, domains.target_test
    if len(source) == len(target) and np.array_equal(source[chosen], target[chosen]):
        raise ValueError(
            "Scores read the labels of the source's test set, so the target must have another; "
            "use selection=none. Received: the same test set for both domains"
        )
