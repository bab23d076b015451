"""Every score by its name."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras

from dann.selection.bnm import bnm
from dann.selection.dev import dev
from dann.selection.entropy import entropy
from dann.selection.info_max import info_max
from dann.selection.mcc import mcc
from dann.selection.mix_val import mix_val
from dann.selection.outputs import Remembering
from dann.selection.reverse_validation import reverse_validation
from dann.selection.snd import snd
from dann.selection.source_accuracy import source_accuracy

Score = Callable[..., float]

SCORES: dict[str, Score] = {
    "source_accuracy": source_accuracy,
    "entropy": entropy,
    "info_max": info_max,
    "snd": snd,
    "bnm": bnm,
    "dev": dev,
    "mcc": mcc,
    "mix_val": mix_val,
    "reverse_validation": reverse_validation,
}


def choose(scores: Sequence[str] | Mapping[str, Score]) -> dict[str, Score]:
    """Returns scores by name.

    Args:
        scores: Names in `SCORES`, or functions of the same arguments by any name.

    Raises:
        TypeError: If it is a single name.
        ValueError: If a name is unknown, or there is none.
    """
    if isinstance(scores, str):
        raise TypeError(
            f"Argument `scores` must hold names, such as ({scores!r},). Received: {scores!r}"
        )
    if isinstance(scores, Mapping):
        return dict(scores)
    unknown = [name for name in scores if name not in SCORES]
    if unknown or not scores:
        raise ValueError(
            f"Argument `scores` must name some of {list(SCORES)}. Received: {list(scores)}"
        )
    return {name: SCORES[name] for name in scores}


def compute_scores(
    model: keras.Model,
    *,
    source: Any,
    target: Any,
    scores: Sequence[str] | Mapping[str, Score] = tuple(SCORES),
    batch_size: int = 256,
) -> dict[str, float]:
    """Computes several scores of one checkpoint; the model runs once on each domain.

    Args:
        model: `dann.adaptation.AdversarialModel`, or any Keras model from inputs to logits.
        source: Inputs and labels of source examples that the training does not see; `None` where
            no score needs them.
        target: Inputs of the target.
        scores: Names in `SCORES`, or functions of the same arguments by any name. Defaults to all.
        batch_size: Inputs at a time. Defaults to `256`.

    Returns:
        Scores by name; higher is better.

    Raises:
        TypeError: If `target` is not one array of inputs, or the model not fit for a score.
        ValueError: If a score is unknown, or cannot be computed; each says why.

    Example:

    >>> import dann, numpy as np
    >>> model = dann.DANN(dann.networks.mlp_backbone((2,)), num_classes=3)
    >>> source, target = (np.ones((8, 2), "float32"), np.arange(8) % 2), np.ones((9, 2), "float32")
    >>> list(dann.selection.compute_scores(model, source=source, target=target, scores=["snd"]))
    ['snd']
    """
    now = Remembering(model)
    return {
        name: score(now, source=source, target=target, batch_size=batch_size)
        for name, score in choose(scores).items()
    }
