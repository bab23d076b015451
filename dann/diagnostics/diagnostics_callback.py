import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from dann.diagnostics.check import as_batch, choose, measure


class Diagnostics(keras.callbacks.Callback):
    """Measures a model on one batch while it trains.

    At the end of each epoch it adds every number to the logs as `diagnostics/<name>`, for the
    callbacks *after* this one in the list, such as a `CSVLogger` or `TensorBoard`. It leaves out
    arrays and words. The training is the same as without the callback.

    It also measures before the first step, so a diagnostic that does not fit the model raises its
    error then. If a later measurement fails, as when the training diverges, it logs NaN with a
    warning.

    Args:
        diagnostics: Names in `dann.diagnostics.DIAGNOSTICS`, or functions `(model, data) -> {name:
            value}` by any name. Defaults to `("certify", "gradient_conflict")`, which cost a few
            backward passes.
        data: The batch to measure on, `({"source": inputs, "target": inputs}, labels)`, or pairs
            of `dann.data.pair`. If it is `None`, `scripts/train.py` gives one.

    Raises:
        ValueError: If a diagnostic is unknown, or training begins without `data`.

    Example:

    >>> import keras, numpy as np
    >>> from dann.diagnostics import Diagnostics
    >>> x = np.zeros((4, 2), "float32")
    >>> batch = ({"source": x, "target": x}, np.zeros(4, "int64"))
    >>> callback = Diagnostics(("gradient_conflict", "minmax_spectrum"), batch)
    >>> callbacks = [callback, keras.callbacks.CSVLogger("metrics.csv")]
    """

    def __init__(
        self,
        diagnostics: Sequence[str] | Mapping[str, Callable] = ("certify", "gradient_conflict"),
        data: Any = None,
    ):
        super().__init__()
        self.diagnostics = choose(diagnostics)
        self.data = data

    def on_train_begin(self, logs=None):
        self._batch, found = as_batch(self.model, self.data), {}
        for function in self.diagnostics.values():
            found |= function(self.model, self._batch)  # raises if it does not fit the model
        self._names = list(_numbers(found))

    def on_epoch_end(self, epoch, logs=None):
        found, failed = measure(self.model, self._batch, self.diagnostics, step_samples=None)
        for name, error in failed.items():
            warnings.warn(f"Diagnostic {name!r} is NaN. {error}", stacklevel=2)
        if logs is not None:
            # The training's own logs have names such as `label/loss` too.
            values = dict.fromkeys(self._names, float("nan")) | _numbers(found)
            logs.update({f"diagnostics/{name}": value for name, value in values.items()})


def _numbers(found):
    return {k: float(v) for k, v in found.items() if not isinstance(v, str) and np.ndim(v) == 0}
