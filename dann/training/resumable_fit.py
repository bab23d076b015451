"""A training that resumes after the process died, by the same call."""

import contextlib
import json
import os
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from dann.checks import check_integer
from dann.training.checkpoints import (
    Checkpoints,
    EpochCheckpoints,
    atomic_write,
    get_variables,
    lock_directory,
)
from dann.training.devices import get_process_position
from dann.training.stops import StopOnNonFinite, StopOnSignal


def fit(
    model: keras.Model,
    pairs: Any,
    directory: str | os.PathLike,
    *,
    epochs: int,
    steps_per_epoch: int | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    check_every: int = 50,
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
    see `dann.training.checkpoints.get_states`. Not saved are the global generators of Python and
    NumPy. For a table of the epochs give `dann.training.EpochTable`; Keras's `CSVLogger` begins its
    file anew.

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
        check_every: Number of steps between checks by `dann.training.StopOnNonFinite`, at least 1.
            Defaults to `50`.
        resume: Whether to resume from a checkpoint. `False` deletes existing ones. Defaults to
            `True`.
        verbose: As in Keras's `fit`.

    Returns:
        The history of all epochs, including those of earlier processes.

    Raises:
        BlockingIOError: If another training writes to the directory.
        ConnectionError: If another process that trains with this one has ended.
        FileNotFoundError: If the directory is moved or deleted meanwhile.
        FloatingPointError: If a loss or a weight is NaN or infinite; the checkpoint before is kept.
        ValueError: If the checkpoint cannot be read, belongs to another model, optimizer, backend,
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
    writer = EpochCheckpoints(checkpoints, watched, _settings(model, pairs, steps))
    signals, non_finite = StopOnSignal(), StopOnNonFinite(check_every)
    with lock_directory(directory), signals.listening(), _errors_of_others():
        if not resume:
            checkpoints.discard()
        _share_newest(checkpoints)
        writer.resume(model, epochs)
        _start_at(pairs, writer.epoch * steps)
        try:
            model.fit(
                pairs,
                initial_epoch=epochs if writer.stopped else writer.epoch,
                epochs=epochs,
                steps_per_epoch=steps,
                callbacks=[signals, non_finite, *watched, writer],
                shuffle=False,
                verbose=verbose,
            )
            signals.end_if_asked()  # one may have come since the last step
        except OSError:
            writer.check_directory()
            raise
        except (KeyboardInterrupt, SystemExit):
            told = f"The same command with resume=true goes on after epoch {writer.epoch}."
            print(f"Stopped. {told}", flush=True)
            raise
    return watched[-1]


def _settings(model, pairs, steps):
    """What the results depend on, as plain values that JSON keeps as they are."""
    settings = {
        "backend": keras.backend.backend(),
        "optimizer": type(model.optimizer).__name__,
        "steps_per_epoch": steps,
        "variables": [list(variable.shape) for variable in get_variables(model)],
        "pairs": getattr(pairs, "identity", None),
    }
    return json.loads(json.dumps(settings, default=int))


def _start_at(pairs, step):
    """Lets the pairs begin at a step."""
    if hasattr(pairs, "start"):
        pairs.start = step
    elif step:
        raise ValueError(
            "Expected pairs that can start at any step, such as `dann.data.pair` makes. "
            f"Received: {type(pairs).__name__}"
        )


def _share_newest(checkpoints):
    """Gives the newest checkpoint of process 0 to the other processes, if there are any."""
    number, count = get_process_position()
    if count == 1:
        return
    from jax.experimental import multihost_utils  # pyright: ignore[reportMissingImports]

    path = next(iter(checkpoints.paths()), None)
    leads = number == 0
    content = path.read_bytes() if leads and path else b""
    size = int(multihost_utils.broadcast_one_to_all(np.array(len(content))))
    if not leads:
        checkpoints.discard()
    if size:
        mine = np.frombuffer(content, np.uint8) if leads else np.zeros(size, np.uint8)
        content = np.asarray(multihost_utils.broadcast_one_to_all(mine)).tobytes()
        with atomic_write(checkpoints.folder / (path.name if leads else "step-0.npz")) as draft:
            draft.write_bytes(content)


@contextlib.contextmanager
def _errors_of_others():
    """Says what JAX's errors mean where several processes train together."""
    try:
        yield
    except RuntimeError as error:
        if get_process_position()[1] > 1 and type(error).__name__ == "JaxRuntimeError":
            raise ConnectionError(
                "Another process of this training has ended, or cannot be reached. Start all "
                "again, with resume=true"
            ) from error
        raise
