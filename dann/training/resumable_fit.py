"""A training that resumes after the process died, by the same call."""

import contextlib
import json
import os
import signal
import textwrap
import threading
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from dann.adaptation.fitting import strategy_scope
from dann.checks import check_integer
from dann.training.checkpoints import (
    LOCK,
    Checkpoints,
    ResumeError,
    atomic_write,
    cut_metrics,
    lock_directory,
    restore,
    states_of,
)
from dann.training.devices import processes
from dann.training.non_finite import check_weights


def fit(
    model: keras.Model,
    pairs: Any,
    directory: str | os.PathLike,
    *,
    epochs: int,
    steps_per_epoch: int | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    resume: bool = True,
    verbose: Any = "auto",
) -> keras.callbacks.History:
    """Trains a compiled model and writes a checkpoint after each epoch, from which it resumes.

    If the process dies, at any moment, the same call goes on after the last whole epoch. The
    training then ends with bit for bit the same weights, optimizer variables and history as if it
    had never stopped. If the training is finished, the call only loads its end; with more `epochs`
    it trains on.

    A checkpoint holds every variable of the model and its optimizer (averages and the seeds of
    random layers among them), the history, the position in `pairs`, and the state of each callback;
    see `dann.training.checkpoints.states_of`. Not saved are the global generators of Python and
    NumPy. Rows that a `CSVLogger` wrote after the checkpoint are dropped.

    SIGTERM ends the process after the running step, with the exit status 143.

    On JAX several processes can train together; each makes the same call with a directory of its
    own, and they go on from what process 0 has in its directory.

    Args:
        model: A compiled and built model, such as `dann.DANN`, made as at the first start.
        pairs: What `dann.data.pair` returns; or a `keras.utils.PyDataset` of your own with an
            attribute `start`, the training step of its first batch, which is set.
        directory: Folder of the checkpoints; it is created if it does not exist. At the end it
            holds the whole model of the last epoch as `last.keras`, too.
        epochs: Number of epochs since the very first start, at least 1.
        steps_per_epoch: Training steps in an epoch, at least 1, if the pairs have no end
            (`repeat=True`). Defaults to `None`: the number of batches in `pairs`.
        callbacks: Keras callbacks, the same at every start.
        resume: Whether to resume from a checkpoint. `False` deletes existing ones. Defaults to
            `True`.
        verbose: As in Keras's `fit`.

    Returns:
        The history of all epochs, including those of earlier processes.

    Raises:
        BlockingIOError: If another training writes to the directory.
        ConnectionError: If another process that trains with this one has ended.
        FileNotFoundError: If the directory is moved or deleted meanwhile.
        FloatingPointError: If a weight is NaN or infinite after an epoch; the checkpoint before is
            kept.
        ResumeError: If the checkpoint cannot be read, belongs to another model, optimizer, backend,
            length of epochs or pairs, or is beyond `epochs`; or if `pairs` cannot start at its
            step.

    Example:

    >>> import dann, tempfile, numpy as np
    >>> from dann.training import fit
    >>> x, y = np.ones((8, 2), "float32"), np.arange(8) % 2
    >>> model = dann.DANN(dann.networks.mlp_backbone((2,)), num_classes=2)
    >>> model.compile("adam")
    >>> pairs = dann.data.pair((x, y), x, batch_size=4, repeat=True, seed=0)
    >>> history = fit(model, pairs, tempfile.mkdtemp(), epochs=2, steps_per_epoch=2, verbose=0)
    >>> history.epoch
    [0, 1]
    """
    check_integer("epochs", epochs, low=1)
    given = steps_per_epoch or getattr(pairs, "num_batches", None)
    steps = check_integer("steps_per_epoch", given, low=1)
    checkpoints = Checkpoints(directory)
    watched = [*callbacks, keras.callbacks.History()]
    writer = _EpochCheckpoints(checkpoints, watched, _settings(model, pairs, steps))
    with lock_directory(directory), _signals(writer), _errors_of_others():
        if not resume:
            checkpoints.discard()
        _share_newest(checkpoints)
        writer.resume(model, epochs)
        _start_at(pairs, writer.epoch * steps)
        model.fit(
            pairs,
            initial_epoch=epochs if writer.stopped else writer.epoch,
            epochs=epochs,
            steps_per_epoch=steps,
            callbacks=[*watched, writer],
            shuffle=False,
            verbose=verbose,
        )
    return watched[-1]


class _EpochCheckpoints(keras.callbacks.Callback):
    """Writes a checkpoint after each epoch; the last of the callbacks.

    Args:
        checkpoints: Where to write.
        watched: All other callbacks.
        settings: What must be the same when the training resumes.
    """

    def __init__(self, checkpoints, watched, settings):
        super().__init__()
        self.checkpoints, self.watched, self.settings = checkpoints, watched, settings
        self.epoch, self.stopped = 0, False
        self.signal: int | None = None  # that asks for the end
        self._found: dict[str, Any] | None = None

    def resume(self, model: Any, epochs: int) -> None:
        """Loads the newest checkpoint, if there is one."""
        found = self.checkpoints.newest()
        if found is None:
            return
        self._found, arrays = found
        _check_same(self._found["settings"], self.settings)
        self.epoch, self.stopped = self._found["epoch"], self._found["stopped"]
        if self.epoch > epochs:
            raise ResumeError(f"Expected at least {self.epoch} epochs. Received: epochs={epochs}")
        for variable, array in zip(_variables(model), arrays, strict=True):
            variable.assign(array.view("bfloat16") if array.dtype.kind == "V" else array)
        self.on_train_begin()
        cut_metrics(self.watched, self.epoch)

    def on_train_begin(self, logs=None):
        if self._found is not None:  # once more, as callbacks set values when they begin
            restore(self.watched, self._found["callbacks"])

    def end_if_asked(self, batch=None, logs=None):
        """Ends the process if a signal came, and says where the training goes on."""
        if self.signal is not None:
            told = f"The same command with resume=true goes on after epoch {self.epoch}."
            print(f"Stopped. {told}", flush=True)
            if self.signal == signal.SIGINT:
                raise KeyboardInterrupt
            raise SystemExit(128 + self.signal)

    def on_epoch_end(self, epoch, logs=None):
        if not (self.checkpoints.folder / LOCK).exists():
            raise FileNotFoundError(
                "A directory that is moved or deleted while its run trains ends it; where it is "
                f"now, resume=true goes on. Received: no {self.checkpoints.folder}"
            )
        variables = _variables(self.model)
        check_weights(self.model)  # weights that are not finite must not replace a good checkpoint
        self.epoch, self.stopped = epoch + 1, self.model.stop_training
        state = {
            "settings": self.settings,
            "epoch": self.epoch,
            "stopped": self.stopped,
            "callbacks": states_of(self.watched),
        }
        arrays = map(keras.ops.convert_to_numpy, variables)
        self.checkpoints.write(self.epoch * self.params["steps"], state, arrays)
        if self.stopped or self.epoch == self.params["epochs"]:
            self.checkpoints.save_model(self.model)


def _variables(model):
    """All state of a training: weights, seeds, and the optimizer's variables."""
    if not model.optimizer.built:
        with strategy_scope(model):
            model.optimizer.build(model.trainable_variables)
    return [*model.variables, *model.optimizer.variables]


def _settings(model, pairs, steps):
    """What the results depend on, as plain values that JSON keeps as they are."""
    settings = {
        "backend": keras.backend.backend(),
        "optimizer": type(model.optimizer).__name__,
        "steps_per_epoch": steps,
        "variables": [list(variable.shape) for variable in _variables(model)],
        "pairs": getattr(pairs, "identity", None),
    }
    return json.loads(json.dumps(settings, default=int))


def _check_same(then, now):
    for key, value in now.items():
        if then.get(key) != value:
            told = [textwrap.shorten(str(one), 200) for one in (then.get(key), value)]
            raise ResumeError(
                "A training must be resumed with what it began with. "
                f"Received: {key} {told[0]} then, {told[1]} now"
            )


def _start_at(pairs, step):
    """Lets the pairs begin at a step."""
    if hasattr(pairs, "start"):
        pairs.start = step
    elif step:
        raise ResumeError(
            "Expected pairs that can start at any step, such as `dann.data.pair` makes. "
            f"Received: {type(pairs).__name__}"
        )


def _share_newest(checkpoints):
    """Gives the newest checkpoint of process 0 to the other processes, if there are any."""
    number, count = processes()
    if count == 1:
        return
    from jax.experimental import multihost_utils  # pyright: ignore[reportMissingImports]

    path = next(iter(checkpoints.paths()), None)
    leads = number == 0
    content = path.read_bytes() if leads and path else b""
    step = int(path.stem.partition("-")[2]) if leads and path else 0
    step, size = map(int, multihost_utils.broadcast_one_to_all(np.array([step, len(content)])))
    if not leads:
        checkpoints.discard()
    if size:
        mine = np.frombuffer(content, np.uint8) if leads else np.zeros(size, np.uint8)
        content = np.asarray(multihost_utils.broadcast_one_to_all(mine)).tobytes()
        with atomic_write(checkpoints.folder / f"step-{step}.npz") as draft:
            draft.write_bytes(content)


@contextlib.contextmanager
def _errors_of_others():
    """Says what JAX's errors mean where several processes train together."""
    try:
        yield
    except RuntimeError as error:
        if processes()[1] > 1 and type(error).__name__ == "JaxRuntimeError":
            raise ConnectionError(
                "Another process of this training has ended, or cannot be reached. Start all "
                "again, with resume=true"
            ) from error
        raise


@contextlib.contextmanager
def _signals(writer):
    """Lets Ctrl-C and SIGTERM end the training after the running step; a second one acts at once.

    An error that a handler raises within a call of TensorFlow can crash the process.
    """
    if threading.current_thread() is not threading.main_thread():  # which alone gets signals
        yield
        return
    numbers = signal.SIGINT, signal.SIGTERM
    before = {number: signal.getsignal(number) or signal.SIG_DFL for number in numbers}

    def note(number, _):
        writer.signal = number
        writer.on_train_batch_begin = writer.end_if_asked  # from now on; else it takes no time
        signal.signal(number, before[number])

    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, note)
    try:
        yield
        writer.end_if_asked()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
