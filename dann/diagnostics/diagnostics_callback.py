import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from dann.checks import check_integer
from dann.diagnostics.check import as_batch, choose


class Diagnostics(keras.callbacks.Callback):
    """Measures a model on one batch while it trains.

    At the end of each epoch it adds every number to the logs as `diagnostics/<name>`, for the
    callbacks *after* this one in the list, such as a `CSVLogger` or `TensorBoard`. It leaves out
    arrays and words.
    With `log_dir` each number also goes to TensorBoard, under the same name, at the step at which
    it was measured. The training is the same as without the callback.

    It also measures before the first step, so a diagnostic that does not fit the model raises its
    error then. If a later measurement fails, as when the training diverges, it logs NaN with a
    warning.

    Args:
        diagnostics: Names in `dann.diagnostics.DIAGNOSTICS`, or functions `(model, data) -> {name:
            value}` by any name. Defaults to `("certificate", "conflict")`, which cost a few
            backward passes.
        data: The batch to measure on, `({"source": inputs, "target": inputs}, labels)`, or pairs
            of `dann.data.pair`. If it is `None`, `scripts/train.py` gives one.
        every: Training steps between measurements, or `None` (default) for the end of each epoch.
            The logs hold the latest.
        log_dir: Folder of the event file for TensorBoard. Defaults to `None`: no such file.

    Raises:
        ValueError: If a diagnostic is unknown, `every` is below 1, or training begins without
            `data`.

    Example:

    >>> import keras, numpy as np
    >>> from dann.diagnostics import Diagnostics
    >>> x = np.zeros((4, 2), "float32")
    >>> batch = ({"source": x, "target": x}, np.zeros(4, "int64"))
    >>> callbacks = [
    ...     Diagnostics(("conflict", "game"), batch, every=100),
    ...     keras.callbacks.CSVLogger("metrics.csv"),
    ... ]
    """

    def __init__(
        self,
        diagnostics: Sequence[str] | Mapping[str, Callable] = ("certificate", "conflict"),
        data: Any = None,
        every: int | None = None,
        log_dir: str | None = None,
    ):
        super().__init__()
        if every is not None:
            check_integer("every", every, 1, why="in steps, or None for the end of each epoch")
        self.diagnostics = choose(diagnostics)
        self.data, self._batch = data, None
        self.every = every
        self.log_dir = log_dir
        self.latest: dict[str, float] = {}
        self._names: dict[str, list[str]] = {}
        self._measured_at = 0
        self._writer = None
        self._goes_on = False

    def on_train_begin(self, logs=None):
        if self.data is None:
            raise ValueError(
                "Argument `data` must be a batch ({'source': inputs, 'target': inputs}, labels) to "
                "measure on. Received: None"
            )
        if self.log_dir is not None:
            import tensorflow as tf

            self._writer = tf.summary.create_file_writer(str(self.log_dir))
        if not self._goes_on:
            self._names = {}
            self._measure()  # raises the error of a diagnostic that does not fit the model

    def on_train_batch_end(self, batch, logs=None):
        # Several steps may have been taken since the last call.
        if self.every is not None and self._step() - self._measured_at >= self.every:
            self._measure()

    def on_epoch_end(self, epoch, logs=None):
        if self.every is None:
            self._measure()
        if logs is not None:
            logs.update(self.latest)

    def on_train_end(self, logs=None):
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._goes_on = False

    def state_dict(self) -> dict[str, Any]:
        """Returns the last measurements and their time, for a training that resumes later."""
        return {"latest": self.latest, "names": self._names, "measured_at": self._measured_at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a `state_dict`, without another measurement at the start."""
        self.latest, self._names = dict(state["latest"]), dict(state["names"])
        self._measured_at = state["measured_at"]
        self._goes_on = True

    def _measure(self):
        step = self._step()
        self._measured_at = step - step % self.every if self.every else step
        if self._batch is None:
            self._batch = as_batch(self.model, self.data)
        for diagnostic in self.diagnostics:
            found = self._found(diagnostic)
            self._names[diagnostic] = list(found)
            # The training's own logs have names such as `label/loss` too.
            self.latest.update({f"diagnostics/{name}": value for name, value in found.items()})
        if self._writer is not None:
            import tensorflow as tf

            with self._writer.as_default(step):
                for name, value in self.latest.items():
                    tf.summary.scalar(name, value)
            self._writer.flush()

    def _found(self, diagnostic):
        try:
            found = self.diagnostics[diagnostic](self.model, self._batch)
        except (ArithmeticError, ValueError) as error:
            if diagnostic not in self._names:
                raise
            warnings.warn(f"Diagnostic {diagnostic!r} is NaN. {error}", stacklevel=2)
            return dict.fromkeys(self._names[diagnostic], float("nan"))
        numbers = {k: v for k, v in found.items() if not isinstance(v, str) and np.ndim(v) == 0}
        return {name: float(value) for name, value in numbers.items()}

    def _step(self):
        return int(self.model.optimizer.iterations)
