"""Label-free scores of a checkpoint by name.

A score is a function of `Outputs` that returns a number; higher is better. It is
registered in `SCORES` with this metadata: `reads`, the examples it needs (`"target"`,
`"labeled source"` or `"labeled source, target"`); and `needs_mixtures=True` if it needs the logits
of mixtures.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import keras

from dann.adaptation.prediction import NotFiniteError
from dann.checks import check_choice
from dann.data.conversion import has_strings
from dann.registry import Registry
from dann.selection.outputs import Outputs, check_unlabeled, compute_outputs

Score = Callable[[Outputs], float]
SCORES: Registry[Score] = Registry()


def resolve_scores(scores: Sequence[str] | Mapping[str, Score]) -> dict[str, Score]:
    """Returns the score functions by name.

    Args:
        scores: Names in `SCORES`, one name, or `"all"`; or functions of `Outputs` by any name.

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
) -> dict[str, float]:
    """Computes several scores of one checkpoint. The model runs once on each domain.

    Args:
        model: Model of `dann.adaptation`, or any Keras model from inputs to logits.
        source: Inputs and labels of source examples that training does not see, or `None` if no
            score needs them.
        target: Inputs of the target, without labels. A few thousand examples are enough.
        scores: Names of scores; or functions, by any name, of the outputs that `compute_outputs`
            returns. Defaults to all scores. Functions of your own get features if the model has a
            backbone.
        batch_size: Number of examples per batch. Defaults to `256`.

    Returns:
        Scores by name; higher is better. There is no `mix_val` for texts, which cannot be mixed,
        and for a single target example.

    Raises:
        TypeError: If `target` is a tuple, such as inputs and labels.
        ValueError: If a score is unknown, needs a missing source, or compares classes although the
            label head has one output; or if the outputs are not finite.

    Example:

    >>> import dann, numpy as np
    >>> model = dann.DANN(dann.networks.mlp_backbone((2,)), num_classes=3)
    >>> source, target = (np.ones((8, 2), "float32"), np.arange(8) % 2), np.ones((9, 2), "float32")
    >>> list(dann.selection.compute_scores(model, source=source, target=target, scores=["mcc"]))
    ['mcc']
    """
    functions = resolve_scores(scores)
    check_unlabeled(target)
    # Texts cannot be mixed, and a single example has no partner.
    mixed = {name for name in functions if _get_metadata(name, "needs_mixtures")}
    if mixed and (has_strings(target) or len(keras.tree.flatten(target)[0]) < 2):
        functions = {name: function for name, function in functions.items() if name not in mixed}
        mixed = set()
    check_source(functions, source)
    # The scores in `SCORES` read no features; functions of the caller may read them.
    outputs = compute_outputs(
        model,
        source=source,
        target=target,
        features=hasattr(model, "backbone") and not functions.keys() <= SCORES.keys(),
        mixed=bool(mixed),
        batch_size=batch_size,
    )
    # Both are (examples, classes), or (examples, 1) in regression.
    logits = outputs.target_logits if outputs.source_logits is None else outputs.source_logits
    class_scores = [name for name in functions if name in SCORES]
    if class_scores and logits is not None and logits.shape[1] == 1:
        raise ValueError(
            "Expected logits of classes. Received: one output, a number, for the scores "
            f"{', '.join(class_scores)}. For two classes write `num_classes=2`; score a number "
            "with a function of `Outputs`."
        )
    return {name: function(outputs) for name, function in functions.items()}


def compute_scores_or_worst(model: Any, **arguments: Any) -> dict[str, float]:
    """Returns `compute_scores`, or `-inf` for every score if the outputs are not finite.

    A model that has diverged is therefore never the best.
    """
    try:
        return compute_scores(model, **arguments)
    except NotFiniteError:
        return dict.fromkeys(resolve_scores(arguments.get("scores", ("all",))), float("-inf"))


def check_source(scores: Iterable[str], source: Any) -> None:
    """Raises `ValueError` if there is no source and a score reads it."""
    for name in scores:
        if source is None and "source" in (_get_metadata(name, "reads") or ""):
            raise ValueError(
                f"Expected `source=(inputs, labels)`, held-out source examples, for the score "
                f"{name!r}. Received: None"
            )


def _get_metadata(name, key):
    # Functions of the caller are not registered.
    return SCORES.metadata.get(name, {}).get(key)


class SelectionScores(keras.callbacks.Callback):
    """Scores the model after every epoch, without labels of the target.

    The scores are added to the logs as `selection/<name>`; higher is better. Only callbacks *after*
    this one in the list see the scores, so put `ModelCheckpoint`, `EarlyStopping`, `CSVLogger` and
    `TensorBoard` there. If the outputs of the model are not finite, the scores are `-inf`, which is
    never the best. NaN in the first epoch would remain the best score forever.

    The scores use all examples of `source` and `target`. A few thousand are enough.

    Args:
        scores: Names of scores, `("all",)`, or functions as in `compute_scores`. Defaults to
            `("info_max",)`.
        source: Inputs and labels of source examples that training does not see. Defaults to `None`,
            for scores that read only the target.
        target: Inputs of the target, without labels.
        batch_size: Number of examples per batch. Defaults to `256`.

    Raises:
        TypeError: If `target` is missing, or a tuple such as inputs and labels.
        ValueError: If a score is unknown, or needs `source`.

    Example:

    >>> import keras, numpy as np
    >>> from dann.selection import SelectionScores
    >>> callbacks = [
    ...     SelectionScores(("info_max", "mcc"), target=np.zeros((8, 2), "float32")),
    ...     keras.callbacks.ModelCheckpoint(
    ...         "best.keras", monitor="selection/info_max", mode="max", save_best_only=True
    ...     ),
    ... ]
    """

    def __init__(
        self,
        scores: Sequence[str] | Mapping[str, Score] = ("info_max",),
        source: tuple[Any, Any] | None = None,
        target: Any = None,
        batch_size: int = 256,
    ):
        super().__init__()
        self.scores = resolve_scores(scores)
        check_unlabeled(target)
        check_source(self.scores, source)
        self.source, self.target, self.batch_size = source, target, batch_size

    def on_epoch_end(self, epoch, logs=None):
        values = compute_scores_or_worst(
            self.model,
            source=self.source,
            target=self.target,
            scores=self.scores,
            batch_size=self.batch_size,
        )
        if logs is not None:
            logs.update({f"selection/{name}": value for name, value in values.items()})
