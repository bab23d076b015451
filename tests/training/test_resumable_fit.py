import functools
import shutil
import signal
from unittest import mock

import keras
import numpy as np
import pytest

import dann
from dann.training import EpochTable, fit
from dann.training.checkpoints import lock_directory
from dann.training.manifest import MANIFEST

pytestmark = pytest.mark.tensorflow

RNG = np.random.default_rng(0)
X = RNG.normal(size=(16, 4)).astype("float32")
Y = np.arange(16) % 2


class At(keras.callbacks.Callback):
    """Calls a function after a step of the training."""

    def __init__(self, step, action):
        super().__init__()
        self.step, self.action = step, action

    def on_train_batch_end(self, batch, logs=None):
        if int(keras.ops.convert_to_numpy(self.model.optimizer.iterations)) == self.step:
            self.action()


class DeathError(Exception):
    """Represents the end of a process."""


SETTINGS = {"epochs": 3, "steps_per_epoch": 4, "verbose": 0}


def build(optimizer=None, **options):
    keras.utils.clear_session()
    keras.utils.set_random_seed(1)
    inputs = keras.Input((4,))
    hidden = keras.layers.Dropout(0.3)(keras.layers.Dense(5, activation="relu")(inputs))
    hidden = keras.layers.BatchNormalization()(hidden)
    model = dann.DANN(keras.Model(inputs, hidden), num_classes=2)
    adam = keras.optimizers.Adam(0.01, use_ema=True, ema_momentum=0.5)
    # Tracing would take most of the time; `test_killed_runs.py` has compiled steps.
    model.compile(optimizer or adam, metrics=["accuracy"], **{"run_eagerly": True, **options})
    return model, dann.data.pair((X, Y), X + 1, 4, repeat=True, seed=3)


def get_bytes(model):
    variables = *model.variables, *model.optimizer.variables
    return [keras.ops.convert_to_numpy(v).tobytes() for v in variables]


def run(folder, *callbacks, epochs=3, **options):
    """Starts a training run of 3 epochs of 4 steps."""
    model, pairs = build(**options)
    folder.mkdir(exist_ok=True)
    table = EpochTable(folder / "metrics.csv")
    settings = {**SETTINGS, "epochs": epochs, "callbacks": [table, *callbacks]}
    return model, fit(model, pairs, folder / "checkpoints", **settings)


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """The bytes, history and table of a training run without a stop, and its folder."""
    folder = tmp_path_factory.mktemp("complete")
    model, history = run(folder)
    return get_bytes(model), history.history, (folder / "metrics.csv").read_text(), folder


def check_equal(complete, folder, model, history):
    assert get_bytes(model) == complete[0]
    assert history.history == complete[1]
    assert history.epoch == [0, 1, 2]
    assert (folder / "metrics.csv").read_text() == complete[2]


@pytest.mark.slow
@pytest.mark.jax
def test_training_that_died_three_times_ends_with_equal_bits(complete, tmp_path):
    for step in (3, 6, 8):
        with pytest.raises(DeathError):
            run(tmp_path, At(step, mock.Mock(side_effect=DeathError)))
    check_equal(complete, tmp_path, *run(tmp_path))
    names = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert names == {"step-8.npz", "step-12.npz", "last.keras", MANIFEST}


@pytest.mark.parametrize(
    ("number", "error", "status"),
    [(signal.SIGTERM, SystemExit, 143), (signal.SIGINT, KeyboardInterrupt, None)],
    ids=["SIGTERM", "SIGINT"],
)
def test_signal_ends_the_training_after_its_step(number, error, status, tmp_path, capfd):
    handler = signal.default_int_handler
    previous = signal.signal(number, handler)  # background jobs ignore SIGINT
    try:
        with pytest.raises(error) as stop:
            run(tmp_path, At(6, lambda: signal.raise_signal(number)))
        assert signal.getsignal(number) is handler
    finally:
        signal.signal(number, previous)
    assert getattr(stop.value, "code", None) == status
    assert "resumes after epoch 1." in capfd.readouterr().out
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "new", At(1, lambda: signal.raise_signal(signal.SIGINT)))
    assert "was finished, so nothing of it was saved." in capfd.readouterr().out
    names = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert names == {"step-4.npz", MANIFEST}


def test_late_and_second_signals_end_the_process(tmp_path):
    previous = signal.signal(signal.SIGTERM, mock.Mock(side_effect=DeathError))
    terminate = functools.partial(signal.raise_signal, signal.SIGTERM)
    late = keras.callbacks.LambdaCallback(on_train_end=lambda logs: terminate())
    try:
        with pytest.raises(DeathError):
            run(tmp_path, At(6, lambda: [terminate() for _ in range(2)]))
        with pytest.raises(SystemExit):
            run(tmp_path, late)
    finally:
        signal.signal(signal.SIGTERM, previous)
    assert (tmp_path / "checkpoints/last.keras").is_file()


class Counter(keras.callbacks.Callback):
    """Has state that a resumed training must restore."""

    saved_attributes = "epochs", "array"

    def __init__(self):
        super().__init__()
        self.epochs, self.array = [], np.zeros(2, "float16")

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append(epoch)
        self.array = self.array + np.float16(epoch)


@pytest.mark.slow
@pytest.mark.jax
def test_state_of_callbacks_is_restored(tmp_path):
    """The callbacks of Keras would otherwise stop later, and at another learning rate."""

    def build_callbacks():
        settings = {"monitor": "loss", "mode": "max", "min_delta": 9.0}  # no epoch improves
        early = keras.callbacks.EarlyStopping(patience=3, restore_best_weights=True, **settings)
        lower = keras.callbacks.ReduceLROnPlateau(factor=0.5, patience=2, **settings)
        return Counter(), lower, early

    model, history = run(tmp_path / "complete", *build_callbacks(), epochs=6)
    assert history.epoch == [0, 1, 2, 3]
    # Further callbacks may join and leave.
    run(tmp_path / "parts", keras.callbacks.TerminateOnNaN(), *build_callbacks(), epochs=2)
    for _ in range(2):  # the second start only loads the end
        counter, *callbacks = build_callbacks()
        parts, history = run(tmp_path / "parts", counter, *callbacks, epochs=6)
        assert history.epoch == counter.epochs == [0, 1, 2, 3]
        assert (counter.array.tolist(), counter.array.dtype) == ([6, 6], np.float16)
        assert get_bytes(model) == get_bytes(parts)
        assert float(parts.optimizer.learning_rate) == pytest.approx(0.005)


@pytest.mark.slow
@pytest.mark.jax
def test_shorter_last_epoch_is_repeated_in_a_longer_run(complete, tmp_path):
    for _ in range(2):  # the second call only loads the final state
        model, pairs = build()
        settings = {**SETTINGS, "epochs": 2, "callbacks": [EpochTable(tmp_path / "metrics.csv")]}
        history = fit(model, pairs, tmp_path / "checkpoints", total_steps=7, **settings)
        assert history.epoch == [0, 1]
        assert int(model.optimizer.iterations) == 7
    names = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert names == {"step-4.npz", "step-7.npz", "last.keras", MANIFEST}
    check_equal(complete, tmp_path, *run(tmp_path))


def test_resume_with_other_settings_is_refused(complete):
    model, pairs = build()
    changes = [
        (build(optimizer="rmsprop")[0], pairs, {}),
        (model, pairs, {"epochs": 1}),
        (model, pairs, {"steps_per_epoch": 1}),
        (model, dann.data.pair((X, Y), X + 1, 4, repeat=True, seed=99), {}),
        (model, dann.data.pair((X, Y[::-1]), X + 1, 4, repeat=True, seed=3), {}),
        (model, [pairs[0]] * 12, {}),  # without a start
    ]
    for changed_model, changed_pairs, settings in changes:
        with pytest.raises(ValueError, match=r"Received: "):
            fit(changed_model, changed_pairs, complete[3] / "checkpoints", **SETTINGS | settings)


def test_broken_checkpoint_is_named_and_can_be_deleted(complete, tmp_path):
    shutil.copytree(complete[3], tmp_path / "run")
    newest = tmp_path / "run/checkpoints/step-12.npz"
    newest.write_bytes(newest.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"step-12\.npz"):
        run(tmp_path / "run")
    newest.unlink()
    assert run(tmp_path / "run")[1].epoch == [0, 1, 2]


@pytest.mark.parametrize("name", ["last.keras", "step-7.npz"])
def test_training_replaces_no_file_of_others(name, tmp_path):
    (tmp_path / name).write_text("mine")
    model, pairs = build()
    for resume in (False, True):
        with pytest.raises(FileExistsError, match=f"{name}, which no training wrote"):
            fit(model, pairs, tmp_path, **SETTINGS, resume=resume)
    assert (tmp_path / name).read_text() == "mine"


def test_nonfinite_weights_are_not_checkpointed(tmp_path):
    model, pairs = build()
    weight = model.trainable_variables[0]
    spoils = At(8, lambda: weight.assign(weight * np.nan))  # after the last loss of the epoch
    with pytest.raises(FloatingPointError, match="kernel has values that are NaN"):
        fit(model, pairs, tmp_path, callbacks=[spoils], **SETTINGS)
    assert {path.name for path in tmp_path.iterdir()} == {"step-4.npz", MANIFEST}


def test_directory_is_locked_during_a_training(tmp_path):
    with (
        lock_directory(tmp_path / "checkpoints"),
        pytest.raises(BlockingIOError, match="checkpoints"),
    ):
        run(tmp_path)
