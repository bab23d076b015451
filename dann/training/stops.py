"""What ends a training between two steps: numbers that are not finite, and signals."""

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
    "What usually helps: a lower learning rate, clipped gradients (global_clipnorm of the "
    "optimizer), a lower strength of the reversal, or float32"
)


class StopOnNonFinite(keras.callbacks.Callback):
    """Stops `fit` with an error as soon as a loss or a weight is NaN or infinite.

    Every `every` steps and at the end of each epoch it checks the loss, the terms that a model of
    `dann.adaptation` logs, all weights, and the optimizer's variables. The `FloatingPointError` has
    one line: the step at which it looked; the losses, or else the first variable, that are not
    finite; and what usually helps. `dann.data.pair` refuses inputs that are not finite.

    Put it before the callbacks that save the model. Its error then keeps them from writing weights
    that are not finite over good ones. `dann.training.fit` does so itself.

    Steps that `keras.optimizers.LossScaleOptimizer` skips, because a scaled gradient is infinite,
    raise no error: neither the loss nor a weight is infinite then.

    `keras.callbacks.TerminateOnNaN` checks only the loss, and waits for it at every step. It misses
    weights that become NaN in the last step or before a sign, and by default ends `fit` normally,
    so that a script saves and reports a broken model.

    Args:
        every_n_steps: Number of steps between checks, at least 1. If `steps_per_execution` is
            larger, it checks after every execution. Defaults to `50`.

    Raises:
        FloatingPointError: In training, if something is not finite.
        ValueError: If `every_n_steps` is below 1.

    Example:

    >>> import keras
    >>> from dann.training import StopOnNonFinite
    >>> checkpoint = keras.callbacks.ModelCheckpoint("newest.keras")
    >>> callbacks = [StopOnNonFinite(every_n_steps=10), checkpoint]
    """

    def __init__(self, every_n_steps: int = 50):
        super().__init__()
        self.every_n_steps = check_integer("every_n_steps", every_n_steps, low=1)

    def on_train_begin(self, logs=None):
        steps: Any = ops.convert_to_numpy(self.model.optimizer.iterations)  # devices may mirror it
        self._step = self._checked = int(steps)
        self._before_epoch = self._step

    def on_train_batch_end(self, batch, logs=None):
        # Under `steps_per_execution` several steps end at once; `batch` is the last of them.
        self._step = self._before_epoch + batch + 1
        if self._step - self._checked >= self.every_n_steps:
            self._check(logs or {})

    def on_epoch_end(self, epoch, logs=None):
        self._before_epoch = self._step
        if self._step > self._checked:
            self._check(logs or {})

    def _check(self, logs):
        losses = {name: float(value) for name, value in logs.items() if name.endswith("loss")}
        broken = [f"{name} is {value}" for name, value in losses.items() if not np.isfinite(value)]
        broken = broken or broken_weights(self.model)
        if broken:
            raise FloatingPointError(
                f"The training of {type(self.model).__name__} stopped at step {self._step}: "
                f"{', '.join(broken)}. {_ADVICE}"
            )
        self._checked = self._step


def broken_weights(model: Any) -> list[str]:
    """Says which variable of a model or of its optimizer is not finite, if one is.

    Returns:
        A sentence that names the first such variable and counts the others; or nothing.
    """
    if keras.backend.backend() == "jax":
        model.jax_state_sync()  # within `fit`, the variables wait for this
    variables = [*model.weights, *model.optimizer.variables]
    variables = [v for v in variables if keras.backend.is_float_dtype(v.dtype)]
    sums = ops.stack([ops.cast(ops.sum(variable), "float32") for variable in variables])
    finite: Any = ops.convert_to_numpy(ops.isfinite(sums))
    suspects = np.flatnonzero(~finite)
    # A sum of finite numbers may overflow, so each suspect is looked at.
    broken = [variables[i].path for i in suspects if not ops.all(ops.isfinite(variables[i]))]
    others = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
    return [f"{name}{others} has values that are NaN or infinite" for name in broken[:1]]


class StopOnSignal(keras.callbacks.Callback):
    """Lets Ctrl-C and SIGTERM end `fit` between two steps, within `listening()`.

    An error that a handler raises within a call of TensorFlow can crash the process.
    """

    def __init__(self):
        super().__init__()
        self.signal: int | None = None  # that asks for the end

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Notes the first of these signals; a second one acts at once."""
        if threading.current_thread() is not threading.main_thread():  # which alone gets signals
            yield
            return
        numbers = signal.SIGINT, signal.SIGTERM
        before = {number: signal.getsignal(number) or signal.SIG_DFL for number in numbers}

        def note(number, _):
            self.signal = number
            signal.signal(number, before[number])

        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, note)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def on_train_batch_begin(self, batch, logs=None):
        self.end_if_asked()

    def end_if_asked(self) -> None:
        """Raises what the signal asks for: `KeyboardInterrupt`, or `SystemExit` of SIGTERM."""
        if self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        if self.signal is not None:
            raise SystemExit(128 + self.signal)
