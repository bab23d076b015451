from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras

from dann.selection.outputs import NotFiniteError, Remembering
from dann.selection.scores import SCORES, Score, choose


def score_checkpoints(
    models: Iterable[keras.Model],
    *,
    source: Any,
    target: Any,
    scores: Sequence[str] | Mapping[str, Score] = tuple(SCORES),
    batch_size: int = 256,
) -> dict[str, list[float]]:
    """Computes scores of one checkpoint after the other, as `dann.selection.evaluate` takes them.

    Each checkpoint is done with before the next is asked for, so that a generator which loads them
    holds one at a time. Where the outputs of a checkpoint are not finite its score is `-inf`.

    Args:
        models: The checkpoints: `dann.adaptation.AdversarialModel`, or any Keras models from inputs
            to logits, for the scores that need no features.
        source: Inputs and labels of source examples that the training does not see; `None` where
            no score needs them.
        target: Inputs of the target.
        scores: Names in `SCORES`, or functions of the same arguments by any name. Defaults to all.
        batch_size: Inputs at a time. Defaults to `256`.

    Returns:
        Of each score, its values by checkpoint; higher is better.

    Raises:
        TypeError: If `target` is not one array of inputs, or a model not fit for a score.
        ValueError: If a score is unknown, or cannot be computed; each says why.

    Example:

    >>> import dann, numpy as np
    >>> models = [dann.DANN(dann.networks.mlp_backbone((2,)), num_classes=2) for _ in range(3)]
    >>> x, y = np.eye(8, 2, dtype="float32"), np.arange(8) % 2
    >>> scores = dann.selection.score_checkpoints(models, source=(x, y), target=x + 1)
    >>> found = dann.selection.evaluate(scores, oracle=[0.5, 0.75, 1.0])
    >>> len(found.scores), found.left_out
    (9, {})
    """
    chosen = choose(scores)
    found: dict[str, list[float]] = {name: [] for name in chosen}
    for model in models:
        now = Remembering(model)
        for name, score in chosen.items():
            found[name].append(score_or_worst(score, now, source, target, batch_size))
    return found


def score_or_worst(
    score: Score, model: keras.Model | Remembering, source: Any, target: Any, batch_size: int
) -> float:
    """Returns the score of a model, and `-inf` where its outputs are not finite."""
    try:
        return score(model, source=source, target=target, batch_size=batch_size)
    except NotFiniteError:
        return float("-inf")
