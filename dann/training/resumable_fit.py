"""Training that resumes after the process died."""

import json
import os
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from dann.checks import check_integer
from dann.training.checkpoints import Checkpoints, EpochCheckpoints, get_variables, lock_directory
from dann.training.devices import get_process_position
from dann.training.stops import StopOnNonFinite, StopOnSignal


def fit(
    model: keras.Model,
    pairs: Any,
    directory: str | os.PathLike,
    *,
    epochs: int,
    steps_per_epoch: int | None = None,
    total_steps: int | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    resume: bool = True,
    verbose: Any = "auto",
) -> keras.callbacks.History:
    """Trains a compiled model with a checkpoint after each epoch, and resumes from the newest.

    If the process dies, the same call resumes training after the last complete epoch. The resulting
    weights, optimizer variables and history are bit for bit the same as without interruption. If
    training is finished, the call only loads the final state; with more `epochs`, training
    continues. A last epoch that `total_steps` shortened is then repeated in full.

    A checkpoint contains every variable of the model and its optimizer (including averages and the
    seeds of random layers), the history, the position in `pairs`, and the state of each callback;
    see `dann.training.checkpoints.get_states`. It does not contain the global generators of Python
    and NumPy. To write a table of the epochs, use `dann.training.EpochTable`: Keras's `CSVLogger`
    would start a new file.

    SIGTERM ends the process after the current step, with exit status 143. Losses and weights are
    checked for NaN and infinity every 50 steps.

    On JAX, several processes can train together. Each makes the same call with its own directory,
    and all resume from the checkpoint of process 0.

    Args:
        model: A compiled and built model, such as `dann.DANN`, created in the same way at every
            start.
        pairs: Pairs from `dann.data.pair`; or your own `keras.utils.PyDataset` with an attribute
            `start`, which `fit` sets to the training step of the first batch.
        directory: Folder of the checkpoints. It is created if it does not exist. At the end it also
            contains the whole model of the last epoch, as `last.keras`.
        epochs: Number of epochs since the first start, at least 1.
        steps_per_epoch: Training steps per epoch, at least 1, for endless pairs (`repeat=True`).
            Defaults to `None`: the number of batches in `pairs`.
        total_steps: Number of training steps, which ends the last epoch earlier. Defaults to
            `None`: all epochs are complete.
        callbacks: Keras callbacks, the same at every start.
        resume: Whether to resume from a checkpoint. `False` deletes existing checkpoints. Defaults
            to `True`.
        verbose: Verbosity of Keras's `fit`.

    Returns:
        The history of all epochs, including epochs of earlier processes.

    Raises:
        BlockingIOError: If another training writes to the directory.
        FileExistsError: If the directory contains `last.keras` or a checkpoint that no training
            wrote. Such a file is never replaced or deleted.
        FloatingPointError: If a loss or a weight is NaN or infinite. The last checkpoint remains.
        ValueError: If the checkpoint cannot be read, belongs to another model, optimizer, backend,
            length of epochs or pairs, or is beyond `epochs`; or if `pairs` cannot start at the
            step of the checkpoint.

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
    steps_per_epoch = steps_per_epoch or getattr(pairs, "num_batches", None)
    steps = check_integer("steps_per_epoch", steps_per_epoch, low=1)
    checkpoints = Checkpoints(directory)
    watched = [*callbacks, keras.callbacks.History()]
    total_steps = total_steps or epochs * steps
    writer = EpochCheckpoints(checkpoints, watched, _get_settings(model, pairs, steps), total_steps)
    signals = StopOnSignal()
    with lock_directory(directory), signals.listening():
        if not resume:
            checkpoints.manifest.discard()
        checkpoints.check_free()
        _share_newest(checkpoints)
        writer.resume(model, epochs)
        if hasattr(pairs, "start"):
            pairs.start = writer.epoch * steps
        elif writer.epoch:
            raise ValueError(
                "Expected pairs that can start at any step, such as `dann.data.pair` makes. "
                f"Received: {type(pairs).__name__}"
            )
        try:
            model.fit(
                pairs,
                initial_epoch=epochs if writer.stopped else writer.epoch,
                epochs=epochs,
                steps_per_epoch=steps,
                callbacks=[signals, StopOnNonFinite(), *watched, writer],
                shuffle=False,
                verbose=verbose,
            )
            signals.end_if_requested()  # a signal may have arrived since the last step
        except (KeyboardInterrupt, SystemExit):
            advice = "No epoch of this model was finished, so nothing of it was saved."
            if writer.epoch:
                advice = f"The same command with resume=true resumes after epoch {writer.epoch}."
            print(f"Stopped. {advice}", flush=True)
            raise
    return watched[-1]


def _get_settings(model, pairs, steps):
    """Returns the settings that the results depend on, as JSON values."""
    settings = {
        "backend": keras.backend.backend(),
        "optimizer": type(model.optimizer).__name__,
        "steps_per_epoch": steps,
        "variables": [list(variable.shape) for variable in get_variables(model)],
        "pairs": getattr(pairs, "identity", None),
    }
    return json.loads(json.dumps(settings, default=int))


def _share_newest(checkpoints):
    """Copies the newest checkpoint of process 0 to the other processes, if there are any."""
    number, count = get_process_position()
    if count == 1:
        return
    from jax.experimental import multihost_utils  # pyright: ignore[reportMissingImports]

    path = next(iter(checkpoints.paths()), None)
    is_first = number == 0
    content = path.read_bytes() if is_first and path else b""
    size = int(multihost_utils.broadcast_one_to_all(np.array(len(content))))
    if not is_first:
        checkpoints.manifest.discard()
    if size:
        buffer = np.frombuffer(content, np.uint8) if is_first else np.zeros(size, np.uint8)
        content = np.asarray(multihost_utils.broadcast_one_to_all(buffer)).tobytes()
        path = path if is_first else checkpoints.folder / "step-0.npz"
        with checkpoints.manifest.write(path) as draft:
            draft.write_bytes(content)
