"""Label-free scores by name, for one checkpoint or several.

A score is a function of `dann.selection.Outputs` that returns a number; higher is better. It is
registered in `SCORES` with these facts: `reads`, the examples it needs (`"target"`,
`"labelled source"` or `"labelled source, target"`); `needs_features=True` if it needs features,
`needs_mixtures=True` if it needs the logits of mixtures, `supports_regression=True` if it also
scores regression, and `min_source_examples` and `min_target_examples`, which default to 1.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from dann.checks import check_choice
from dann.data.examples import has_strings
from dann.registry import Registry
from dann.selection.outputs import NotFiniteError, Outputs, compute_outputs

Score = Callable[[Outputs], float]
SCORES: Registry[Score] = Registry()


def resolve_scores(scores: Sequence[str] | Mapping[str, Score]) -> dict[str, Score]:
    """Returns scores by name.

    Args:
        scores: Names in `SCORES`, or `"all"` among them, one alone too; or functions of `Outputs`
            by any name.

    Raises:
        ValueError: If a name is unknown.
    """
    if isinstance(scores, Mapping):
        return dict(scores)
    scores = [scores] if isinstance(scores, str) else scores
    for name in scores:
        check_choice("scores", name, ["all", *sorted(SCORES)])
    return {name: SCORES[name] for name in (sorted(SCORES) if "all" in scores else scores)}


def compute_scores(
    model: keras.Model,
    *,
    source: tuple[Any, Any] | None,
    target: Any,
    scores: Sequence[str] | Mapping[str, Score] = ("all",),
    batch_size: int = 256,
    predict: Callable[[keras.Model, Any], np.ndarray] | None = None,
) -> dict[str, float]:
    """Computes several scores of one checkpoint; the model runs once on each domain.

    Args:
        source: Inputs and labels of source examples that training does not see; `None` if no score
            needs them.
        target: Inputs of the target, without labels; a few thousand are enough.
        scores: Names in `SCORES`, or functions of `Outputs` by any name. Defaults to all. Features
            are computed for functions of one's own if the model has a backbone.

    The other arguments, and the errors, are those of `dann.selection.compute_outputs`.

    Returns:
        Scores by name; higher is better. Texts have no `mix_val`, because they cannot be mixed.

    Raises:
        ValueError: If a score is unknown, needs a source that is not given, compares classes where
            the label head has one output, or a domain has too few examples for it.

    Example:

    >>> import dann, numpy as np
    >>> model = dann.DANN(dann.networks.mlp_backbone((2,)), num_classes=3)
    >>> source, target = (np.ones((8, 2), "float32"), np.arange(8) % 2), np.ones((9, 2), "float32")
    >>> list(dann.selection.compute_scores(model, source=source, target=target, scores=["snd"]))
    ['snd']
    """
    chosen = resolve_scores(scores)
    mixed = any(_fact(name, "needs_mixtures") for name in chosen)
    if mixed and has_strings(target):
        chosen = {name: one for name, one in chosen.items() if not _fact(name, "needs_mixtures")}
        mixed = False
    check_source(chosen, source)
    own = hasattr(model, "backbone") and not chosen.keys() <= SCORES.keys()
    outputs = compute_outputs(
        model,
        source=source,
        target=target,
        features=own or any(_fact(name, "needs_features") for name in chosen),
        mixed=mixed,
        batch_size=batch_size,
        predict=predict,
    )
    logits = outputs.target_logits if outputs.source_logits is None else outputs.source_logits
    of_classes = [one for one in chosen if one in SCORES and not _fact(one, "supports_regression")]
    if of_classes and logits is not None and logits.shape[1] == 1:
        raise ValueError(
            "A label head of one output predicts a number, which `scores=['dev']` can score; for "
            f"two classes write `num_classes=2`. Received: scores {', '.join(of_classes)}"
        )
    return {name: score(outputs) for name, score in chosen.items()}


def lacking_examples(scores: Iterable[str], *, source: int, target: int) -> list[str]:
    """Returns the names of `SCORES` that need more than so many examples of a domain, sorted."""
    counts = {"min_source_examples": source, "min_target_examples": target}
    return sorted(
        name for name in scores if any((_fact(name, fact) or 0) > n for fact, n in counts.items())
    )


def scores_or_worst(model: Any, **arguments: Any) -> dict[str, float]:
    """Returns `compute_scores`, or `-inf` for every score if the model's outputs are not finite.

    So a model that has diverged is never the best.
    """
    try:
        return compute_scores(model, **arguments)
    except NotFiniteError:
        return dict.fromkeys(resolve_scores(arguments.get("scores", ("all",))), float("-inf"))


def score_checkpoints(models: Iterable[keras.Model], **arguments: Any) -> dict[str, list[float]]:
    """Computes scores of one checkpoint after the other, for `dann.selection.regret`.

    It asks for the next checkpoint only after it has scored the last, so a generator can load them
    one at a time. A checkpoint with outputs that are not finite scores `-inf`.

    Args:
        models: The checkpoints, models as for `compute_scores`.
        **arguments: Those of `compute_scores`.

    Returns:
        The values of each score by checkpoint; higher is better.

    Example:

    >>> import dann, numpy as np
    >>> models = [dann.DANN(dann.networks.mlp_backbone((2,)), num_classes=2) for _ in range(3)]
    >>> x, y = np.eye(8, 2, dtype="float32"), np.arange(8) % 2
    >>> scores = dann.selection.score_checkpoints(models, source=(x, y), target=x + 1)
    >>> set(dann.selection.regret(scores, oracle=[0.5, 0.75, 1.0])) == set(dann.selection.SCORES)
    True
    """
    found: dict[str, list[float]] = {}
    for model in models:
        for name, value in scores_or_worst(model, **arguments).items():
            found.setdefault(name, []).append(value)
    return found


def check_source(scores: Iterable[str], source: Any) -> None:
    """Raises `ValueError` if there is no source, and one of the scores reads it."""
    for name in scores:
        if source is None and "source" in (_fact(name, "reads") or ""):
            raise ValueError(f"Score {name!r} needs `source`, held-out inputs and labels")


def _fact(name, fact):
    return SCORES.facts.get(name, {}).get(fact)
