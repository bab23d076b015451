"""A callback that scores the model after every epoch."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras

from dann.selection.outputs import check_unlabeled
from dann.selection.scores import Score, check_source, compute_scores_or_worst, resolve_scores


class SelectionScores(keras.callbacks.Callback):
    """Scores the model after every epoch, without labels of the target.

    The scores are added to the logs as `selection/<name>`; higher is better. Only callbacks *after*
    this one in the list see the scores, so put `ModelCheckpoint`, `EarlyStopping`, `CSVLogger` and
    `TensorBoard` there. If the outputs of the model are not finite, the scores are `-inf`, which is
    never the best. NaN in the first epoch would remain the best score forever.

    The scores use all examples of `source` and `target`. A few thousand are enough.

    Args:
        scores: Names in `dann.selection.SCORES`, `("all",)`, or functions of
            `dann.selection.Outputs` by any name. Defaults to `("info_max",)`.
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
