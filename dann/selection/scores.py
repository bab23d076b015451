"""Label-free scores by name, for one checkpoint or several.

A score is a function `(model, *, source, target, batch_size=256) -> float`; higher is better. Each
has its own file, which registers it in `SCORES` with these facts: `reads`, the examples it needs
(`"target"`, `"labelled source"` or `"labelled source, target"`); `cost`, the work in addition to
one pass over them; `paper`, a link; and `of_features=True` if it needs the model's features.

A registered score may get a `RememberingModel`, which the functions of `dann.selection.predictions`
take. A function that is not registered gets the model itself.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import keras

from dann.checks import check_choice
from dann.registry import Registry
from dann.selection.predictions import (
    NotFiniteError,
    RememberingModel,
    check_source,
    check_target,
)

Score = Callable[..., float]
SCORES: Registry[Score] = Registry("score")


def choose(scores: Sequence[str] | Mapping[str, Score]) -> dict[str, Score]:
    """Returns scores by name.

    Args:
        scores: Names in `SCORES`, or `"all"` among them; or functions of the same arguments by any
            name.

    Raises:
        TypeError: If `scores` is a single string.
        ValueError: If a name is unknown, or `scores` is empty.
    """
    if isinstance(scores, str):
        raise TypeError(
            f"Argument `scores` must hold names, such as ({scores!r},). Received: {scores!r}"
        )
    if isinstance(scores, Mapping):
        return dict(scores)
    if not scores:
        raise ValueError(f"Argument `scores` must name some of {list(SCORES)}. Received: {scores}")
    for name in scores:
        check_choice("scores", name, ["all", *SCORES])
    return {name: SCORES[name] for name in (SCORES if "all" in scores else scores)}


def compute_scores(
    model: keras.Model,
    *,
    source: Any,
    target: Any,
    scores: Sequence[str] | Mapping[str, Score] = ("all",),
    batch_size: int = 256,
) -> dict[str, float]:
    """Computes several scores of one checkpoint; the model runs once on each domain.

    Source and target may have any form that `dann.data.pair` takes: arrays, frames, datasets,
    loaders, generators. Everything but arrays is read once, completely, into memory.

    Args:
        model: `dann.adaptation.AdversarialModel`, or any Keras model from inputs to logits if no
            score needs features.
        source: Inputs and labels of source examples that training does not see; `None` if no score
            needs them. Labels may be a column or one-hot; weights are left out.
        target: Inputs of the target. Labels that a dataset gives with them are dropped.
        scores: Names in `SCORES`, or functions of the same arguments by any name. Defaults to all.
        batch_size: Inputs at a time. Defaults to `256`.

    Returns:
        Scores by name; higher is better.

    Raises:
        TypeError: If `target` is not what the model takes, such as inputs and labels, or a score
            needs features that the model does not have.
        ValueError: If `source` has no labels, a dataset has no end, a score is unknown, a domain
            has too few examples, a label is not among the model's classes, or an output of the
            model is not finite.

    Example:

    >>> import dann, numpy as np
    >>> model = dann.DANN(dann.networks.mlp_backbone((2,)), num_classes=3)
    >>> source, target = (np.ones((8, 2), "float32"), np.arange(8) % 2), np.ones((9, 2), "float32")
    >>> list(dann.selection.compute_scores(model, source=source, target=target, scores=["snd"]))
    ['snd']
    """
    chosen = choose(scores)
    now = remembering_for(model, chosen)
    source, target = read_once(now, source, target)
    return {name: _value(score, now, source, target, batch_size) for name, score in chosen.items()}


def score_checkpoints(
    models: Iterable[keras.Model],
    *,
    source: Any,
    target: Any,
    scores: Sequence[str] | Mapping[str, Score] = ("all",),
    batch_size: int = 256,
) -> dict[str, list[float]]:
    """Computes scores of one checkpoint after the other, for `dann.selection.evaluate`.

    It asks for the next checkpoint only after it has scored the last, so a generator can load them
    one at a time. A checkpoint with outputs that are not finite scores `-inf`.

    Args:
        models: The checkpoints, models as for `compute_scores`.

    The other arguments are those of `compute_scores`.

    Returns:
        The values of each score by checkpoint; higher is better.

    Example:

    >>> import dann, numpy as np
    >>> models = [dann.DANN(dann.networks.mlp_backbone((2,)), num_classes=2) for _ in range(3)]
    >>> x, y = np.eye(8, 2, dtype="float32"), np.arange(8) % 2
    >>> scores = dann.selection.score_checkpoints(models, source=(x, y), target=x + 1)
    >>> found = dann.selection.evaluate(scores, oracle=[0.5, 0.75, 1.0])
    >>> list(found.scores) == list(dann.selection.SCORES), found.left_out
    (True, {})
    """
    chosen = choose(scores)
    found: dict[str, list[float]] = {name: [] for name in chosen}
    for model in models:
        now = remembering_for(model, chosen)
        source, target = read_once(now, source, target)
        for name, score in chosen.items():
            found[name].append(score_or_worst(score, now, source, target, batch_size))
    return found


def remembering_for(model: Any, scores: Mapping[str, Score]) -> RememberingModel:
    """Returns a model that remembers what these scores ask for."""
    of_features = {SCORES[n] for n in SCORES if SCORES.entry(n).facts.get("of_features")}
    return RememberingModel(model, not of_features.isdisjoint(scores.values()))


def read_once(model: Any, source: Any, target: Any) -> tuple[Any, Any]:
    """Returns both domains as arrays, so that several scores do not each read a dataset."""
    source = None if source is None else check_source(source)
    return source, None if target is None else check_target(model, target)


def score_or_worst(
    score: Score, model: RememberingModel, source: Any, target: Any, batch_size: int
) -> float:
    """Returns the score of a model, or `-inf` if its outputs are not finite."""
    try:
        return _value(score, model, source, target, batch_size)
    except NotFiniteError:
        return float("-inf")


def _value(score, model, source, target, batch_size):
    """The score of a model; a function of the user's own gets the model itself, to predict with."""
    registered = any(score is SCORES[name] for name in SCORES)
    taken = model if registered else model.model
    return score(taken, source=source, target=target, batch_size=batch_size)
