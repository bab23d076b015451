import concurrent.futures
import os
import random
import signal

import keras
import numpy as np
import pytest
from support import lacking

import dann
from dann.training import fit

RNG = np.random.default_rng(0)
X = RNG.normal(size=(16, 4)).astype("float32")
Y = np.arange(16) % 2


class At(keras.callbacks.Callback):
    """Does something after a step of the training."""

    def __init__(self, step, action):
        super().__init__()
        self.step, self.action = step, action

    def on_train_batch_end(self, batch, logs=None):
        if int(self.model.optimizer.iterations) == self.step:
            self.action()


class DeathError(Exception):
    """Stands for the end of a process."""


def die():
    raise DeathError


def in_a_thread(function):
    """Calls the function in another thread and raises what it raises."""
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        return executor.submit(function).result()


def started(**options):
    keras.utils.clear_session()
    keras.utils.set_random_seed(1)
    entry = keras.Input((4,))
    hidden = keras.layers.Dropout(0.3)(keras.layers.Dense(5, activation="relu")(entry))
    model = dann.DANN(keras.Model(entry, hidden), num_classes=2)
    adam = keras.optimizers.Adam(0.01, use_ema=True, ema_momentum=0.5)
    # Tracing would take most of the time; `test_killed_runs.py` has compiled steps.
    model.compile(adam, metrics=["accuracy"], **{"run_eagerly": True, **options})
    return model, dann.data.pair((X, Y), X + 1, 4, repeat=True, seed=3)


def bits(model):
    return [keras.ops.convert_to_numpy(v) for v in (*model.variables, *model.optimizer.variables)]


def run(folder, *callbacks, epochs=3, every=2, **options):
    """One start of a training of 3 epochs of 4 steps."""
    model, pairs = started(**options)
    folder.mkdir(exist_ok=True)
    logger = keras.callbacks.CSVLogger(folder / "metrics.csv")
    settings = {"epochs": epochs, "steps_per_epoch": 4, "every": every, "verbose": 0}
    callbacks = [logger, *callbacks]
    try:
        return model, fit(model, pairs, folder / "checkpoints", callbacks=callbacks, **settings)
    finally:
        logger.on_train_end()  # closes its file


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The training that was never stopped."""
    folder = tmp_path_factory.mktemp("whole")
    model, history = run(folder)
    return bits(model), history.history, (folder / "metrics.csv").read_text()


def check_equal(whole, folder, model, history):
    for one, other in zip(whole[0], bits(model), strict=True):
        np.testing.assert_array_equal(one, other)
    assert history.history == whole[1]
    assert history.epoch == [0, 1, 2]
    assert (folder / "metrics.csv").read_text() == whole[2]


@lacking.seeded_dropout
def test_a_training_that_died_twice_ends_with_the_same_bits_and_rows(whole, tmp_path):
    for step in (3, 7):
        with pytest.raises(DeathError):
            run(tmp_path, At(step, die))
    check_equal(whole, tmp_path, *run(tmp_path))


@lacking.seeded_dropout
def test_epochs_may_be_added_to_a_finished_training(whole, tmp_path):
    run(tmp_path, epochs=1)
    check_equal(whole, tmp_path, *run(tmp_path))
    check_equal(whole, tmp_path, *run(tmp_path))  # which only loads the end


@lacking.seeded_dropout
@pytest.mark.parametrize(
    ("number", "error", "status"),
    [(signal.SIGTERM, SystemExit, 143), (signal.SIGINT, KeyboardInterrupt, None)],
)
def test_a_signal_ends_the_training_after_its_step_with_a_checkpoint(
    number, error, status, whole, tmp_path, capfd
):
    handler = signal.getsignal(number)
    with pytest.raises(error) as stop:
        run(tmp_path, At(3, lambda: os.kill(os.getpid(), number)), every="epoch")
    assert getattr(stop.value, "code", None) == status
    assert (tmp_path / "checkpoints/step-3").is_dir()
    assert "Stopped after step 3." in capfd.readouterr().out
    assert signal.getsignal(number) is handler
    check_equal(whole, tmp_path, *run(tmp_path, every="epoch"))


@pytest.mark.slow
def test_executions_of_several_steps_go_on_too(tmp_path):
    several = {"steps_per_execution": 2, "run_eagerly": False}
    one = bits(run(tmp_path / "whole", every=1, **several)[0])
    with pytest.raises(DeathError):
        run(tmp_path / "killed", At(6, die), every=1, **several)
    other = bits(run(tmp_path / "killed", every=1, **several)[0])
    for value, expected in zip(other, one, strict=True):
        np.testing.assert_array_equal(value, expected)


@lacking.several_steps
def test_other_executions_take_no_step_beyond_the_epoch_that_they_finish(tmp_path):
    one, _ = run(tmp_path / "whole", every=1, run_eagerly=False)
    with pytest.raises(DeathError):
        run(tmp_path / "killed", At(6, die), every=1, run_eagerly=False)
    several = {"steps_per_execution": 2, "run_eagerly": False}
    other, _ = run(tmp_path / "killed", every=1, **several)
    assert other.steps_per_execution == 2
    for value, expected in zip(bits(other), bits(one), strict=True):
        np.testing.assert_array_equal(value, expected)


def test_a_signal_while_the_training_ends_is_heard(tmp_path):
    class Late(keras.callbacks.Callback):
        def on_train_end(self, logs=None):
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(SystemExit) as stop:
        run(tmp_path, Late(), epochs=1)
    assert stop.value.code == 143
    assert run(tmp_path, epochs=1)[1].epoch == [0]


def test_what_stopped_a_training_early_keeps_it_stopped(tmp_path):
    def early():
        return keras.callbacks.EarlyStopping("loss", mode="max", patience=1, min_delta=9.0)

    _, history = run(tmp_path, early())
    assert history.epoch == [0, 1]
    _, history = run(tmp_path, early(), epochs=5)
    assert history.epoch == [0, 1]


def test_without_resume_it_starts_over(whole, tmp_path):
    run(tmp_path, epochs=1)
    model, pairs = started()
    settings = {"steps_per_epoch": 4, "resume": False, "verbose": 0}
    history = fit(model, pairs, tmp_path / "checkpoints", epochs=1, **settings)
    assert history.epoch == [0]
    assert history.history["loss"] == whole[1]["loss"][:1]


def test_what_does_not_go_on_is_refused_in_one_sentence(tmp_path):
    model, pairs = started()
    folder = tmp_path / "checkpoints"
    fit(model, pairs, folder, epochs=2, steps_per_epoch=2, verbose=0)
    with pytest.raises(ValueError, match="Expected 2 steps an epoch.*Received: 4"):
        fit(model, pairs, folder, epochs=2, steps_per_epoch=4, verbose=0)
    with pytest.raises(ValueError, match="no fewer epochs.*Received: epochs=1"):
        fit(model, pairs, folder, epochs=1, steps_per_epoch=2, verbose=0)
    with pytest.raises(ValueError, match="start at any step.*Received: list"):
        fit(model, [], folder, epochs=2, steps_per_epoch=2, verbose=0)
    others = dann.data.pair((X, Y), X, 4, repeat=True, seed=99)
    with pytest.raises(ValueError, match="with their seed, batch size"):
        fit(model, others, folder, epochs=2, steps_per_epoch=2, verbose=0)
    model.compile("rmsprop")
    with pytest.raises(ValueError, match="Expected the optimizer .*Received: RMSprop"):
        fit(model, pairs, folder, epochs=3, steps_per_epoch=2, verbose=0)
    finite = dann.data.pair((X, Y), X, 4)
    with pytest.raises(ValueError, match="Received: steps_per_epoch=3 with 4 batches an epoch"):
        fit(model, finite, folder, epochs=2, steps_per_epoch=3)


def test_a_directory_takes_one_training_at_a_time(tmp_path):
    def begin_another():
        with pytest.raises(OSError, match="Received: .*checkpoints, which process"):
            in_a_thread(lambda: run(tmp_path))

    run(tmp_path, At(2, begin_another))
    assert not (tmp_path / "checkpoints" / "run.lock").exists()


def test_pairs_are_left_at_the_step_where_they_were(tmp_path):
    model, pairs = started()
    pairs.start = 5
    fit(model, pairs, tmp_path, epochs=2, steps_per_epoch=2, verbose=0)
    assert pairs.start == 5


def test_a_callback_may_tell_its_own_state(tmp_path):
    class Counter(keras.callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.seen = set()  # not plain

        def on_epoch_end(self, epoch, logs=None):
            self.seen.add(epoch)

        def state_dict(self):
            return {"seen": sorted(self.seen)}

        def load_state_dict(self, state):
            self.seen = set(state["seen"])

    run(tmp_path, Counter(), epochs=2)
    counter = Counter()
    run(tmp_path, counter)
    assert counter.seen == {0, 1, 2}


class Draws(keras.callbacks.Callback):
    """Draws from the generators of Python and NumPy after each step."""

    def __init__(self):
        super().__init__()
        self.drawn = []

    def on_train_batch_end(self, batch, logs=None):
        self.drawn.append((random.random(), np.random.random()))


def test_what_callbacks_draw_goes_on_where_it_stopped(tmp_path):
    whole, killed, resumed = Draws(), Draws(), Draws()
    run(tmp_path / "whole", whole, epochs=2)
    with pytest.raises(DeathError):
        run(tmp_path / "parts", killed, At(5, die), epochs=2)
    run(tmp_path / "parts", resumed, epochs=2)
    assert len(whole.drawn) == 8
    assert resumed.drawn == whole.drawn


class Decayed(keras.callbacks.Callback):
    """Changes what it was given, under the name of the argument."""

    def __init__(self, rate, patience=3):
        super().__init__()
        self.rate, self.patience, self.seen = rate, patience, []

    def on_epoch_end(self, epoch, logs=None):
        self.rate *= 0.5
        self.seen.append(self.rate)


def test_what_a_callback_was_given_goes_on_if_it_has_changed_and_is_else_that_of_the_new_start(
    tmp_path,
):
    run(tmp_path, Decayed(8.0), epochs=1)
    run(tmp_path, Decayed(8.0), epochs=2)
    callback = Decayed(8.0, patience=5)
    run(tmp_path, callback)
    assert (callback.rate, callback.seen) == (1.0, [4.0, 2.0, 1.0])
    assert callback.patience == 5


def test_early_stopping_of_a_users_own_class_goes_on(tmp_path):
    """Keras changes the sign of its `min_delta` at the end of the first epoch of each process."""

    class Mine(keras.callbacks.EarlyStopping):
        def __init__(self, **kwargs):
            super().__init__("loss", mode="min", min_delta=100.0, **kwargs)

    _, history = run(tmp_path / "whole", Mine(patience=2), epochs=6)
    assert history.epoch == [0, 1, 2]  # no loss improves by so much
    run(tmp_path / "parts", Mine(patience=2), epochs=2)
    stopping = Mine(patience=2)
    _, history = run(tmp_path / "parts", stopping, epochs=6)
    assert history.epoch == [0, 1, 2]
    assert stopping.min_delta == -100.0


def test_weights_that_are_not_finite_take_the_place_of_no_checkpoint(tmp_path):
    model, pairs = started()

    def spoil():
        model.trainable_variables[0].assign(model.trainable_variables[0] * np.nan)

    settings = {"epochs": 3, "steps_per_epoch": 4, "every": 2, "verbose": 0}
    with pytest.raises(FloatingPointError, match="has values that are NaN"):
        fit(model, pairs, tmp_path, callbacks=[At(5, spoil)], **settings)
    assert {path.name for path in tmp_path.iterdir()} == {"step-2", "step-4", "last.keras"}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (lambda: ((X * 3, Y), X + 1), "other examples of the source$"),
        (lambda: ((X, Y[::-1]), X + 1), "other examples of the source$"),
        (lambda: ((X[::-1], Y), X), "other examples of the source and the target$"),
    ],
    ids=["inputs", "labels", "both"],
)
def test_other_examples_of_the_same_number_are_refused(changed, told, tmp_path):
    run(tmp_path, epochs=1)
    model, _ = started()
    pairs = dann.data.pair(*changed(), 4, repeat=True, seed=3)
    with pytest.raises(ValueError, match=told):
        fit(model, pairs, tmp_path / "checkpoints", epochs=3, steps_per_epoch=4, verbose=0)


def test_pairs_of_ones_own_with_an_identity_need_no_checksums(tmp_path):
    class Own(keras.utils.PyDataset):
        identity, start = {"batch_size": 4}, 0

        def __len__(self):
            return 2

        def __getitem__(self, index):
            return {"source": X[:4], "target": X[:4] + 1}, Y[:4]

    for epochs in (1, 2):
        model, _ = started()
        history = fit(model, Own(), tmp_path, epochs=epochs, steps_per_epoch=2, verbose=0)
    assert history.epoch == [0, 1]
