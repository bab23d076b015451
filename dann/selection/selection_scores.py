import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from dann.selection.predictions import check_source, check_target, is_dataset
from dann.selection.scores import Score, choose, remembering_for, score_or_worst


class SelectionScores(keras.callbacks.Callback):
    """Scores the model after every epoch without labels of the target.

    The scores enter the logs as `selection/<name>`, higher is better. Only the callbacks *after*
    this one in the list see them, so put `ModelCheckpoint`, `EarlyStopping`, `CSVLogger` and
    `TensorBoard` there. If the model's outputs are not finite, a score is `-inf`, which is never
    the best; NaN in the first epoch would stay the best for ever.

    It uses all inputs that it is given; a few thousand of the target are enough.

    Args:
        scores: Names in `dann.selection.SCORES`, `("all",)`, or functions of the same arguments by
            any name. Defaults to `("info_max",)`.
        source: Inputs and labels of source examples that training does not see, for the scores that
            need them, in any form that `compute_scores` takes. Defaults to `None`.
        target: Inputs of the target, likewise. A dataset is read once, before the first scores.
        batch_size: Inputs at a time. Defaults to `256`.

    Raises:
        TypeError: If `target` is inputs and labels, or missing.
        ValueError: If a score is unknown, needs a `source` that is not given, or a domain is empty
            or has no labels.

    Example:

    >>> import keras, numpy as np
    >>> from dann.selection import SelectionScores
    >>> callbacks = [
    ...     SelectionScores(("info_max", "snd"), target=np.zeros((8, 2), "float32")),
    ...     keras.callbacks.ModelCheckpoint(
    ...         "best.keras", monitor="selection/info_max", mode="max", save_best_only=True
    ...     ),
    ... ]
    """

    def __init__(
        self,
        scores: Sequence[str] | Mapping[str, Score] = ("info_max",),
        source: Any = None,
        target: Any = None,
        batch_size: int = 256,
    ):
        super().__init__()
        self.scores = choose(scores)
        self.source = None if source is None else check_source(source)
        self.target, self._target_inputs = target, None
        if not is_dataset(target):
            check_target(None, target)
        self.batch_size = batch_size
        for name, score in self.scores.items():
            if source is None and _needs_source(score):
                raise ValueError(
                    f"Score {name!r} needs `source`, held-out inputs and labels. Received: None"
                )

    def on_train_begin(self, logs=None):
        if self.model.built:  # its inputs show whether a dataset yields examples or batches
            self._target_inputs = check_target(self.model, self.target)

    def on_epoch_end(self, epoch, logs=None):
        if logs is None:
            return
        now = remembering_for(self.model, self.scores)
        if self._target_inputs is None:
            self._target_inputs = check_target(now, self.target)
        for name, score in self.scores.items():
            value = score_or_worst(score, now, self.source, self._target_inputs, self.batch_size)
            logs[f"selection/{name}"] = value


def _needs_source(score):
    source = inspect.signature(score).parameters.get("source")
    return source is not None and source.default is inspect.Parameter.empty
