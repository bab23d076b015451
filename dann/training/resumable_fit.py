import contextlib
import math
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

import keras

from dann.adaptation.replicas import sharing_weights
from dann.adaptation.training_state import build_all
from dann.checks import check_integer
from dann.training.checkpoint_times import CheckpointTimes
from dann.training.checkpoints import Checkpoint, Checkpoints
from dann.training.directory_claim import claim
from dann.training.first_group_callbacks import FirstGroupCallbacks
from dann.training.led_callbacks import LedCallbacks
from dann.training.process_group import joined
from dann.training.resumable_callbacks import ResumableCallbacks, identity_of, made_by, state_of
from dann.training.run_directory import ResumeError
from dann.training.stop_signals import stop_requests


def fit(
    model: keras.Model,
    pairs: Any,
    directory: str | os.PathLike,
    *,
    epochs: int,
    steps_per_epoch: int | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    every: str | int | None = "epoch",
    keep: int = 2,
    resume: bool = True,
    verbose: Any = "auto",
) -> keras.callbacks.History:
    """Trains a compiled model and writes checkpoints from which the same call resumes.

    If the process dies, at any moment, the same call resumes from the newest complete checkpoint.
    The training then ends with bit for bit the same weights, optimizer variables and history as if
    it had never stopped; `docs/reliability.md` lists the conditions. If the training is finished,
    the call only loads its end; with more `epochs` it trains on.

    A checkpoint holds the weights, the optimizer with its averages, the seeds of random layers,
    Python's and NumPy's global generators, the metrics of the running epoch, the position in
    `pairs` and the state of each callback; see `dann.training.callback_states.states_of`. Resuming
    cuts off what a `CSVLogger` or `TensorBoard` wrote after the checkpoint, so the folder of
    TensorBoard's events must belong to this training alone.

    SIGTERM and Ctrl-C finish the step and write a checkpoint. Then SIGTERM ends the process with
    the exit status 143, and Ctrl-C raises `KeyboardInterrupt`. A second Ctrl-C ends the process at
    once.

    Args:
        model: A compiled model, such as `dann.DANN`, built as at the first start.
        pairs: What `dann.data.pair` returns; or a `keras.utils.PyDataset` of your own with an
            attribute `start`, the training step of its first batch. It is set during the training
            and restored afterwards.
        directory: Folder of the checkpoints; it is created if it does not exist.
        epochs: Number of epochs since the very first start, at least 1.
        steps_per_epoch: Training steps in an epoch, at least 1, if the pairs have no end
            (`repeat=True`). Defaults to `None`: the number of batches in `pairs`.
        callbacks: Keras callbacks, the same at every start.
        every: When to write a checkpoint: `"epoch"` (default), after each epoch and every 10
            minutes within one; a number of steps; a time such as `"30s"`, `"10min"` or `"2h"`; or
            `None` for never. Unless it is `None`, one is also written before the first step and
            after the last.
        keep: How many of the newest checkpoints to keep, at least 1. Defaults to `2`.
        resume: Whether to resume from a checkpoint. `False` deletes existing ones. Defaults to
            `True`.
        verbose: As in Keras's `fit`.

    Returns:
        The history of all epochs, including those of earlier processes.

    Raises:
        DirectoryInUseError: If another training writes to the directory.
        FloatingPointError: If a checkpoint is due and a weight is NaN or infinite; the previous
            checkpoint is kept.
        TypeError: If a number is not an integer.
        ValueError: If a number is out of range, or `every` has another value.
        ResumeError: If the checkpoint belongs to another model, optimizer, backend or epoch length,
            is beyond `epochs`, or was written with another seed, batch size or other examples; if
            `pairs` cannot start at its step; or if all checkpoints are broken.

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
    steps_per_epoch = _steps_of(pairs, steps_per_epoch)
    check_integer("keep", keep, low=1)
    times = CheckpointTimes(every)
    history = keras.callbacks.History()
    group = joined()
    if group is not None and not group.leads:
        with group.reasons_first(), _at_its_start(pairs), stop_requests() as request:
            watched = LedCallbacks(model, group, None, request)
            build_all(model, pairs)
            _run(model, pairs, watched, epochs, steps_per_epoch, verbose=0)
        return history
    with claim(directory), _at_its_start(pairs), _told_to(group), stop_requests() as request:
        checkpoints = Checkpoints(directory, keep)
        found = checkpoints.newest() if resume else None
        if not resume:
            checkpoints.discard()
        if found:
            _check_goes_on(found, model, epochs, steps_per_epoch, pairs)
            if verbose:
                print(f"Resumed after step {state_of(found)['step']}.")
        grouped = group is None and sharing_weights() > 1  # processes have groups of their own
        kind = FirstGroupCallbacks if grouped else ResumableCallbacks
        watched = kind(
            [*callbacks, history],
            None if times.never else checkpoints,
            found,
            times,
            request,
            identity_of(pairs),
            add_progbar=verbose != 0,
            model=model,
            verbose=verbose,
            epochs=epochs,
            steps=steps_per_epoch,
        )
        if group is not None:
            watched = LedCallbacks(model, group, watched, request)
        build_all(model, pairs)
        _run(model, pairs, watched, epochs, steps_per_epoch, verbose)
        if request:  # after the last step, while callbacks ended
            request.stop()
    return history


@contextlib.contextmanager
def _told_to(group):
    """Tells the group that a signal has stopped process 0; hears first who else has ended."""
    if group is None:
        yield
        return
    try:
        with group.reasons_first():
            yield
    except (KeyboardInterrupt, SystemExit) as stop:
        status = stop.code if isinstance(stop, SystemExit) else 128 + signal.SIGINT
        group.fail(f"stopped by {signal.Signals(status - 128).name}", status)
        raise


def _run(model, pairs, watched, epochs, steps_per_epoch, verbose):
    """Trains the rest of an epoch that was interrupted, then the other epochs."""
    settings = {"callbacks": watched, "shuffle": False, "verbose": verbose}
    if watched.batch:
        watched.more_to_come = watched.epoch + 1 < epochs
        rest = steps_per_epoch - watched.batch
        with _whole_calls(model, rest):
            model.fit(
                _from_step(pairs, watched.step),
                initial_epoch=watched.epoch,
                epochs=watched.epoch + 1,
                steps_per_epoch=rest,
                **settings,
            )
        if not watched.more_to_come or watched.stopped:
            return
        watched.more_to_come = False
    model.fit(
        _from_step(pairs, watched.step),
        initial_epoch=epochs if watched.stopped else watched.epoch,
        epochs=epochs,
        steps_per_epoch=steps_per_epoch,
        **settings,
    )


@contextlib.contextmanager
def _whole_calls(model, steps):
    """Runs so many steps in each call that no call goes beyond `steps`, which Keras would allow."""
    usual = model.steps_per_execution
    fitting = math.gcd(usual, steps)
    try:
        if fitting != usual:
            model.steps_per_execution, model.train_function = fitting, None
        yield
    finally:
        if fitting != usual:
            model.steps_per_execution, model.train_function = usual, None


def _steps_of(pairs, steps_per_epoch):
    own = getattr(pairs, "num_batches", None)
    if own is not None and steps_per_epoch not in (None, own):
        raise ValueError(
            "Argument `steps_per_epoch` is for pairs without end, such as `repeat=True` makes. "
            f"Received: steps_per_epoch={steps_per_epoch} with {own} batches an epoch"
        )
    return check_integer("steps_per_epoch", own or steps_per_epoch, low=1)


@contextlib.contextmanager
def _at_its_start(pairs):
    """Restores `pairs.start` at the end of the block."""
    start = getattr(pairs, "start", None)
    try:
        yield
    finally:
        if start is not None:
            pairs.start = start


def _from_step(pairs, step):
    """Returns the pairs, starting at a step of the training."""
    if hasattr(pairs, "start"):
        pairs.start = step
        return pairs
    if step == 0:
        return pairs
    raise ResumeError(
        "Expected pairs that can start at any step, such as `dann.data.pair` makes, because the "
        f"training resumes after step {step}. Received: {type(pairs).__name__}"
    )


def _check_same_pairs(found, then, now):
    if then is None or now is None:
        return
    orders = [{k: v for k, v in one.items() if k != "contents"} for one in (then, now)]
    if orders[0] != orders[1]:
        raise ResumeError(
            f"Expected the pairs of {found.path}, with their seed, batch size and numbers of "
            f"examples, {orders[0]}; without a seed, each process draws another. "
            f"Received: {orders[1]}"
        )
    held, holds = (one.get("contents") for one in (then, now))  # earlier versions wrote none
    if isinstance(held, dict) and isinstance(holds, dict) and held != holds:
        changed = [domain for domain in holds if held.get(domain) != holds[domain]]
        raise ResumeError(
            f"Expected the examples that {found.path} was trained on, as their checksums tell. "
            f"Received: other examples of the {' and the '.join(changed)}"
        )


def _check_goes_on(
    found: Checkpoint, model: keras.Model, epochs: int, steps_per_epoch: int, pairs: Any
) -> None:
    state = state_of(found)
    now, then = made_by(model), {"devices": 1, "model_parallel": 1, **state["made_by"]}
    _check_same_pairs(found, state["pairs"], identity_of(pairs))
    if then.get("backend") != now["backend"]:
        raise ResumeError(
            f"Expected the backend of {found.path}, {then.get('backend')}. "
            f"Received: {now['backend']}"
        )
    if state["steps_per_epoch"] != steps_per_epoch:
        raise ResumeError(
            f"Expected {state['steps_per_epoch']} steps an epoch, as in {found.path}. "
            f"Received: {steps_per_epoch}"
        )
    if state["epoch"] + (state["batch"] > 0) > epochs:
        raise ResumeError(
            f"Expected no fewer epochs than {found.path} has, {state['epoch']}. "
            f"Received: epochs={epochs}"
        )
    changed = [
        f"{key} {then.get(key)} then, {value} now"
        for key, value in now.items()
        if then.get(key) != value
    ]
    if changed:
        print(
            f"warning: the last bits may differ from a run without a stop: {'; '.join(changed)}",
            file=sys.stderr,
        )
