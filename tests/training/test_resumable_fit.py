import functools
import shutil
import signal
from unittest import mock

import keras
import numpy as np
import pytest
from support import torch_skips

import dann
from dann.training import EpochTable, fit
from dann.training.checkpoints import lock_directory

RNG = np.random.default_rng(0)
X = RNG.normal(size=(16, 4)).astype("float32")
Y = np.arange(16) % 2


class At(keras.callbacks.Callback):
    """Does something after a step of the training."""

    def __init__(self, step, action):
        super().__init__()
        self.step, self.action = step, action

    def on_train_batch_end(self, batch, logs=None):
        if int(keras.ops.convert_to_numpy(self.model.optimizer.iterations)) == self.step:
            self.action()


class DeathError(Exception):
    """Stands for the end of a process."""


SETTINGS = {"epochs": 3, "steps_per_epoch": 4, "verbose": 0}


def started(optimizer=None, **options):
    keras.utils.clear_session()
    keras.utils.set_random_seed(1)
    entry = keras.Input((4,))
    hidden = keras.layers.Dropout(0.3)(keras.layers.Dense(5, activation="relu")(entry))
    hidden = keras.layers.BatchNormalization()(hidden)
    model = dann.DANN(keras.Model(entry, hidden), num_classes=2)
    adam = keras.optimizers.Adam(0.01, use_ema=True, ema_momentum=0.5)
    # Tracing would take most of the time; `test_killed_runs.py` has compiled steps.
    model.compile(optimizer or adam, metrics=["accuracy"], **{"run_eagerly": True, **options})
    return model, dann.data.pair((X, Y), X + 1, 4, repeat=True, seed=3)


def bits(model):
    variables = *model.variables, *model.optimizer.variables
    return [keras.ops.convert_to_numpy(v).tobytes() for v in variables]


def run(folder, *callbacks, epochs=3, **options):
    """One start of a training of 3 epochs of 4 steps."""
    model, pairs = started(**options)
    folder.mkdir(exist_ok=True)
    table = EpochTable(folder / "metrics.csv")
    settings = {**SETTINGS, "epochs": epochs, "callbacks": [table, *callbacks]}
    return model, fit(model, pairs, folder / "checkpoints", **settings)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The training that was never stopped, and its folder."""
    folder = tmp_path_factory.mktemp("whole")
    model, history = run(folder)
    return bits(model), history.history, (folder / "metrics.csv").read_text(), folder


def check_equal(whole, folder, model, history):
    assert bits(model) == whole[0]
    assert history.history == whole[1]
    assert history.epoch == [0, 1, 2]
    assert (folder / "metrics.csv").read_text() == whole[2]


@torch_skips.seeded_dropout
def test_a_training_that_died_three_times_ends_with_the_same_bits_and_rows(whole, tmp_path):
    for step in (3, 6, 8):
        with pytest.raises(DeathError):
            run(tmp_path, At(step, mock.Mock(side_effect=DeathError)))
    check_equal(whole, tmp_path, *run(tmp_path))
    kept = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert kept == {"step-8.npz", "step-12.npz", "last.keras"}


@torch_skips.seeded_dropout
def test_epochs_may_be_added_to_a_finished_training(whole, tmp_path):
    run(tmp_path, epochs=1)
    for _ in range(2):  # the second start only loads the end
        check_equal(whole, tmp_path, *run(tmp_path))


@pytest.mark.parametrize(
    ("number", "error", "status"),
    [(signal.SIGTERM, SystemExit, 143), (signal.SIGINT, KeyboardInterrupt, None)],
    ids=["SIGTERM", "SIGINT"],
)
def test_a_signal_ends_the_training_after_its_step_and_says_where_it_goes_on(
    number, error, status, tmp_path, capfd
):
    handler = signal.default_int_handler
    before = signal.signal(number, handler)  # a job in the background has one that ignores it
    try:
        with pytest.raises(error) as stop:
            run(tmp_path, At(6, lambda: signal.raise_signal(number)))
        assert signal.getsignal(number) is handler
    finally:
        signal.signal(number, before)
    assert getattr(stop.value, "code", None) == status
    assert "resumes after epoch 1." in capfd.readouterr().out
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-4.npz"]


def test_a_signal_after_the_last_step_ends_the_process_too_and_a_second_acts_at_once(tmp_path):
    before = signal.signal(signal.SIGTERM, mock.Mock(side_effect=DeathError))
    late = keras.callbacks.LambdaCallback(
        on_train_end=lambda logs: signal.raise_signal(signal.SIGTERM)
    )

    def twice():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)

    try:
        with pytest.raises(DeathError):
            run(tmp_path, At(6, twice))
        with pytest.raises(SystemExit):
            run(tmp_path, late)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (tmp_path / "checkpoints/last.keras").is_file()


def test_what_stopped_a_training_early_keeps_it_stopped_with_its_best_weights(tmp_path):
    settings = {"patience": 2, "min_delta": 9.0, "restore_best_weights": True}
    early = functools.partial(keras.callbacks.EarlyStopping, "loss", mode="max", **settings)
    model, history = run(tmp_path / "whole", early(), epochs=6)
    assert history.epoch == [0, 1, 2]
    run(tmp_path / "parts", early(), epochs=2)
    for _ in range(2):  # the second start finds it stopped
        parts, history = run(tmp_path / "parts", early(), epochs=6)
        assert history.epoch == [0, 1, 2]
        assert bits(model) == bits(parts)


def test_a_rate_that_was_lowered_stays_low_and_its_patience_goes_on(tmp_path):
    def lower():
        return keras.callbacks.ReduceLROnPlateau("loss", 0.5, 2, mode="max", min_delta=9.0)

    model, _ = run(tmp_path / "whole", lower(), epochs=5)
    for epochs in (2, 5):
        parts, _ = run(tmp_path / "parts", lower(), epochs=epochs)
    for one in (model, parts):
        rate = keras.ops.convert_to_numpy(one.optimizer.learning_rate)
        assert rate == pytest.approx(0.0025)


def test_a_callback_may_tell_its_own_state(tmp_path):
    class Counter(keras.callbacks.Callback):
        saved_attributes = "seen", "array"

        def __init__(self):
            super().__init__()
            self.seen, self.array = [], np.zeros(2, "float16")

        def on_epoch_end(self, epoch, logs=None):
            self.seen.append(epoch)
            self.array = self.array + np.float16(epoch)

    run(tmp_path, keras.callbacks.TerminateOnNaN(), Counter(), epochs=2)
    counter = Counter()
    run(tmp_path, counter, keras.callbacks.EarlyStopping("loss"))
    assert counter.seen == [0, 1, 2]
    assert (counter.array.tolist(), counter.array.dtype) == ([3, 3], np.float16)


def test_without_resume_it_starts_over(whole, tmp_path):
    run(tmp_path, epochs=1)
    model, pairs = started()
    settings = {**SETTINGS, "epochs": 1, "resume": False}
    history = fit(model, pairs, tmp_path / "checkpoints", **settings)
    assert history.epoch == [0]
    assert history.history["loss"] == whole[1]["loss"][:1]


@pytest.mark.parametrize("key", ["optimizer", *list(SETTINGS)[:2], "seed", "examples", "no start"])
def test_what_does_not_go_on_is_refused(key, whole):
    model, pairs = started(optimizer="rmsprop" if key == "optimizer" else None)
    others = {
        "seed": dann.data.pair((X, Y), X + 1, 4, repeat=True, seed=99),
        "examples": dann.data.pair((X, Y[::-1]), X + 1, 4, repeat=True, seed=3),
        "no start": [pairs[0]] * 12,
    }
    settings = {**SETTINGS, **({key: 1} if key in SETTINGS else {})}
    with pytest.raises(ValueError, match=r"Received: "):
        fit(model, others.get(key, pairs), whole[3] / "checkpoints", **settings)


def test_a_broken_checkpoint_is_named_and_the_one_before_is_used_once_it_is_deleted(
    whole, tmp_path
):
    shutil.copytree(whole[3], tmp_path / "run")
    newest = tmp_path / "run/checkpoints/step-12.npz"
    newest.write_bytes(newest.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"step-12\.npz"):
        run(tmp_path / "run")
    newest.unlink()
    assert run(tmp_path / "run")[1].epoch == [0, 1, 2]


def test_a_directory_takes_one_training_at_a_time(tmp_path):
    with lock_directory(tmp_path / "checkpoints"), pytest.raises(BlockingIOError):
        run(tmp_path)


def test_a_directory_that_is_moved_meanwhile_ends_the_training_which_goes_on_there(tmp_path, whole):
    here, there = tmp_path / "here", tmp_path / "there"
    with pytest.raises(FileNotFoundError, match="is moved or deleted"):
        run(here, At(6, lambda: here.rename(there)))
    assert not here.exists()
    check_equal(whole, there, *run(there))


def test_weights_that_are_not_finite_take_the_place_of_no_checkpoint(tmp_path):
    model, pairs = started()
    weight = model.trainable_variables[0]
    spoils = At(6, lambda: weight.assign(weight * np.nan))
    with pytest.raises(FloatingPointError):
        fit(model, pairs, tmp_path, callbacks=[spoils], **SETTINGS)
    assert {path.name for path in tmp_path.iterdir()} == {"step-4.npz"}
