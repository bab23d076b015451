import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from dann.diagnostics.check import as_batch, choose


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
            value}` by any name. Defaults to `("certificate", "conflict")`, which cost a few
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
    >>> callbacks = [Diagnostics(("conflict", "game"), batch), keras.callbacks.CSVLogger("a.csv")]
    """

    def __init__(
        self,
        diagnostics: Sequence[str] | Mapping[str, Callable] = ("certificate", "conflict"),
        data: Any = None,
    ):
        super().__init__()
        self.diagnostics = choose(diagnostics)
        self.data = data

    def on_train_begin(self, logs=None):
        self._batch = as_batch(self.model, self.data)
        self._names = {}
        self._measured()  # raises the error of a diagnostic that does not fit the model

    def on_epoch_end(self, epoch, logs=None):
        if logs is not None:
            # The training's own logs have names such as `label/loss` too.
            logs.update({f"diagnostics/{name}": value for name, value in self._measured().items()})

    def _measured(self):
        return {name: value for each in self.diagnostics for name, value in self._numbers(each)}

    def _numbers(self, diagnostic):
        try:
            found = self.diagnostics[diagnostic](self.model, self._batch)
        except (ArithmeticError, ValueError) as error:
            if diagnostic not in self._names:
                raise
            warnings.warn(f"Diagnostic {diagnostic!r} is NaN. {error}", stacklevel=2)
            found = dict.fromkeys(self._names[diagnostic], float("nan"))
        numbers = {k: v for k, v in found.items() if not isinstance(v, str) and np.ndim(v) == 0}
        self._names[diagnostic] = list(numbers)
        return [(name, float(value)) for name, value in numbers.items()]
