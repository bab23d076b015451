import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from dann.diagnostics.check import as_batch, get_functions, measure


class Diagnostics(keras.callbacks.Callback):
    """Measures a model on one batch while it trains.

    At the end of each epoch the callback adds every number to the logs as `diagnostics/<name>`, for
    the callbacks *after* it in the list, such as a `CSVLogger` or `TensorBoard`. It skips arrays
    and words. The training is the same as without the callback.

    The callback also measures before the first step, so that a diagnostic that does not fit the
    model raises its error there. If a later measurement fails, for example because the training
    diverges, it logs NaN with a warning.

    Args:
        diagnostics: Names in `dann.diagnostics.DIAGNOSTICS`, or functions `(model, data) -> {name:
            value}` by any name. Defaults to `("certify", "gradient_conflict")`, which cost a few
            backward passes.
        data: The batch to measure on, `({"source": inputs, "target": inputs}, labels)`, or pairs
            of `dann.data.pair`. Defaults to `None`: `scripts/train.py` sets a batch.

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
        self.diagnostics = get_functions(diagnostics)
        self.data = data

    def on_train_begin(self, logs=None):
        self._batch, measurements = as_batch(self.model, self.data), {}
        for function in self.diagnostics.values():
            measurements |= function(self.model, self._batch)  # may raise
        self._names = list(_select_numbers(measurements))

    def on_epoch_end(self, epoch, logs=None):
        measurements, errors = measure(self.model, self._batch, self.diagnostics, None)
        for name, error in errors.items():
            warnings.warn(f"Diagnostic {name!r} is NaN. {error}", stacklevel=2)
        if logs is not None:
            values = dict.fromkeys(self._names, float("nan")) | _select_numbers(measurements)
            # The prefix avoids collisions with logs of the training, such as `label/loss`.
            logs.update({f"diagnostics/{name}": value for name, value in values.items()})


def _select_numbers(m):
    return {k: float(v) for k, v in m.items() if not isinstance(v, str) and np.ndim(v) == 0}
