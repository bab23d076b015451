"""Callbacks that end training between two steps: on non-finite numbers, and on signals."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from dann.checks import check_integer

_ADVICE = (
    "Try a lower learning rate, clipped gradients (global_clipnorm of the optimizer), a lower "
    "strength of the reversal, or float32"
)


class StopOnNonFinite(keras.callbacks.Callback):
    """Stops `fit` with an error as soon as a loss or a weight is NaN or infinite.

    The callback checks the losses, the terms that a model of `dann.adaptation` logs, all weights
    and the variables of the optimizer, every `every_n_steps` steps and at the end of each epoch.
    The message of the `FloatingPointError` has one line, with the step of the check, the losses or
    the first variable that is not finite, and remedies. `dann.data.pair` rejects inputs that are
    not finite.

    Put this callback before callbacks that save the model, so that they do not replace good weights
    by weights that are not finite. `dann.training.fit` adds the callback in this place.

    If `keras.optimizers.LossScaleOptimizer` skips a step because a scaled gradient is infinite, the
    loss and the weights are finite, so there is no error.

    `keras.callbacks.TerminateOnNaN` checks only the loss, at every step. It does not detect weights
    that become NaN in the last step, or before a binary sign, which hides NaN. By default, it ends
    `fit` normally, so a script saves and reports a broken model.

    Args:
        every_n_steps: Number of steps between checks, at least 1. If `steps_per_execution` is
            larger, it checks after every execution. Defaults to `50`.

    Raises:
        FloatingPointError: During training, if a loss or a variable is not finite.
        ValueError: If `every_n_steps` is below 1.

    Example:

    >>> import keras
    >>> from dann.training.stops import StopOnNonFinite
    >>> checkpoint = keras.callbacks.ModelCheckpoint("newest.keras")
    >>> callbacks = [StopOnNonFinite(every_n_steps=10), checkpoint]
    """

    def __init__(self, every_n_steps: int = 50):
        super().__init__()
        self.every_n_steps = check_integer("every_n_steps", every_n_steps, low=1)

    def on_train_begin(self, logs=None):
        steps: Any = ops.convert_to_numpy(self.model.optimizer.iterations)  # may be mirrored
        self._step = self._checked = int(steps)
        self._before_epoch = self._step

    def on_train_batch_end(self, batch, logs=None):
        # With `steps_per_execution`, several steps end at once, and `batch` is the last step.
        self._step = self._before_epoch + batch + 1
        if self._step - self._checked >= self.every_n_steps:
            self._check(logs or {})

    def on_epoch_end(self, epoch, logs=None):
        self._before_epoch = self._step
        if self._step > self._checked:
            self._check(logs or {})

    def _check(self, logs):
        losses = {name: float(value) for name, value in logs.items() if name.endswith("loss")}
        causes = [f"{name} is {value}" for name, value in losses.items() if not np.isfinite(value)]
        causes = causes or describe_broken_weights(self.model)
        if causes:
            raise FloatingPointError(
                f"The training of {type(self.model).__name__} stopped at step {self._step}: "
                f"{', '.join(causes)}. {_ADVICE}"
            )
        self._checked = self._step


def describe_broken_weights(model: Any) -> list[str]:
    """Returns a sentence about the variables of a model and its optimizer that are not finite.

    Returns:
        A list with one sentence, which names the first such variable and counts the rest; an empty
        list if all variables are finite.
    """
    if keras.backend.backend() == "jax":
        model.jax_state_sync()  # within `fit`, the variables are only updated on request
    variables = [*model.weights, *model.optimizer.variables]
    variables = [v for v in variables if keras.backend.is_float_dtype(v.dtype)]
    # One sum per variable and one transfer is faster than a check of every element.
    sums = ops.stack([ops.cast(ops.sum(variable), "float32") for variable in variables])
    is_finite: Any = ops.convert_to_numpy(ops.isfinite(sums))
    # A sum of finite numbers can overflow, so all elements of these variables are checked.
    names = [
        variables[index].path
        for index in np.flatnonzero(~is_finite)
        if not ops.all(ops.isfinite(variables[index]))
    ]
    count = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
    return [f"{name}{count} has values that are NaN or infinite" for name in names[:1]]


class StopOnSignal(keras.callbacks.Callback):
    """Ends `fit` between two steps after Ctrl-C or SIGTERM, within `listening()`.

    An error that a signal handler raises within a call of TensorFlow can crash the process, so the
    handler only records the signal.
    """

    def __init__(self):
        super().__init__()
        self.signal: int | None = None  # the first signal that arrived

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Records the first signal during the block. A second signal acts immediately."""
        if threading.current_thread() is not threading.main_thread():  # receives no signals
            yield
            return
        numbers = signal.SIGINT, signal.SIGTERM
        handlers = {number: signal.getsignal(number) or signal.SIG_DFL for number in numbers}

        def record(number, _):
            self.signal = number
            signal.signal(number, handlers[number])

        for number, handler in handlers.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, record)
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def on_train_batch_begin(self, batch, logs=None):
        self.end_if_requested()

    def end_if_requested(self) -> None:
        """Raises `KeyboardInterrupt` after SIGINT, and `SystemExit` after SIGTERM."""
        if self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        if self.signal is not None:
            raise SystemExit(128 + self.signal)  # the exit status that shells expect
