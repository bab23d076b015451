"""Shares of flips against those of a loop in NumPy."""

import keras
import numpy as np
import pytest
from support.constant_gradient import BATCH, INPUTS, kernel_gradients, sum_of_layers, train, values

from dann.layers import BinaryDense
from dann.optimizers import Bop, FlipRatio, PerVariable

STEPS = len(INPUTS) // BATCH
# Where watching begins if the first batch builds the model; on JAX, Keras builds it before.
FIRST = 1 if keras.backend.backend() == "tensorflow" else 0


def signs_after_each_step(weights, rate, threshold, epochs):
    """What Bop makes of the weights; the first entry is what they are before."""
    average, signs = np.zeros_like(weights), np.where(weights >= 0, 1, -1)
    yield signs
    for gradient in kernel_gradients(epochs):
        average = (1 - rate) * average + rate * gradient
        signs = np.where(average * signs > threshold, -signs, signs)
        yield signs


def shares(signs, every):
    """The share of signs that differ `every` steps later."""
    looks = signs[::every]
    return [np.mean(a != b) for a, b in zip(looks[:-1], looks[1:], strict=True)]


def trained(epochs=3, **kwargs):
    model = sum_of_layers("one", "two", "float", binary=["one", "two"])
    kernels = [model.get_layer(name).kernel for name in ("one", "two")]
    rules = {"one/kernel": Bop(0.3, 0.02), "two/kernel": Bop(0.2, 0.05, name="slow")}
    optimizer = PerVariable(rules, rest=keras.optimizers.SGD(0.1))
    before = values(kernels)
    logs = train(model, optimizer, epochs, [FlipRatio(**kwargs)], jit_compile=False)
    settings = zip(before, ((0.3, 0.02), (0.2, 0.05)), strict=True)
    return logs, [list(signs_after_each_step(w, *s, epochs)) for w, s in settings]


def test_the_shares_since_the_last_epoch_are_logged_by_layer():
    logs, signs = trained()
    assert {name for name in logs if name.startswith("flips/")} == {"flips/one", "flips/two"}
    for name, of_layer in zip(("one", "two"), signs, strict=True):
        expected = shares(of_layer, STEPS)
        assert max(expected) > 0
        np.testing.assert_allclose(logs[f"flips/{name}"], expected)


@pytest.mark.parametrize("every", [1, 2, 4])
def test_the_mean_over_an_epochs_looks_is_logged(every):
    logs, signs = trained(every=every)
    for name, of_layer in zip(("one", "two"), signs, strict=True):
        looks = shares(of_layer, every)
        ends = [every * (look + 1) for look in range(len(looks))]
        expected = [
            np.mean([s for s, e in zip(looks, ends, strict=True) if start < e <= start + STEPS])
            for start in range(0, 3 * STEPS, STEPS)
        ]
        np.testing.assert_allclose(logs[f"flips/{name}"], expected)
    assert sum(logs["flips/one"]) > 0


def test_layers_of_one_name_get_numbers():
    inner = [sum_of_layers("same", binary=["same"]) for _ in range(2)]
    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.layers.Add()([part(inputs) for part in inner]))
    logs = train(model, keras.optimizers.SGD(1.0), 1, [FlipRatio()])
    assert {"flips/same", "flips/same/1"} < set(logs)


class BuiltByItsFirstBatch(keras.Model):
    """A subclassed model of one layer, which `kernel` is the first value of if it is given."""

    def __init__(self, kernel=None, **kwargs):
        super().__init__(**kwargs)
        initial = "zeros" if kernel is None else keras.initializers.Constant(kernel)
        self.binary = kernel is not None
        self.one = keras.layers.Dense(4, kernel_initializer=initial, name="one")

    def call(self, inputs):
        outputs = self.one(inputs)
        self.one.kernel.binary = self.binary
        return outputs


@pytest.mark.parametrize("every", [None, 1, 4])
def test_what_the_first_batch_builds_is_watched_from_the_end_of_its_step_on(every):
    kernel = np.random.default_rng(3).choice([-1.0, 1.0], (3, 4))
    model = BuiltByItsFirstBatch(kernel)
    optimizer = PerVariable({"binary": Bop(0.3, 0.02)}, rest=keras.optimizers.SGD(0.1))
    logs = train(model, optimizer, 2, [FlipRatio(every)], jit_compile=False)
    signs = list(signs_after_each_step(kernel, 0.3, 0.02, 2))
    assert (signs[0] != signs[1]).any()  # what cannot be seen
    ends = sorted({FIRST, *range(every or STEPS, 2 * STEPS + 1, every or STEPS)})
    looks = [np.mean(signs[a] != signs[b]) for a, b in zip(ends[:-1], ends[1:], strict=True)]
    expected = [
        np.mean([look for look, end in zip(looks, ends[1:], strict=True) if start < end <= stop])
        for start, stop in ((0, STEPS), (STEPS, 2 * STEPS))
    ]
    assert expected[0] > 0
    np.testing.assert_allclose(logs["flips/one"], expected)


def test_an_epoch_of_the_step_that_builds_alone_logs_nothing():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([BinaryDense(4, name="one")])
    model.compile("sgd", "mse")
    inputs, outputs = np.ones((4, 3)), np.zeros((4, 4))
    history = model.fit(inputs, outputs, epochs=3, verbose=0, callbacks=[FlipRatio()]).history
    assert len(history["loss"]) == 3
    assert len(history["flips/one"]) == 3 - FIRST


@pytest.mark.parametrize("make", [BuiltByItsFirstBatch, lambda: sum_of_layers("float")])
def test_a_model_without_binary_layers_is_refused_once_it_is_built(make):
    model = make()
    with pytest.raises(ValueError, match=f"Received: {model.name}, in which none trains"):
        train(model, keras.optimizers.SGD(0.1), 1, [FlipRatio()])
    assert model.layers[-1].built


def test_it_can_be_asked_before_training():
    with pytest.raises(ValueError, match="in which none trains"):
        FlipRatio().check(sum_of_layers("float"))
    FlipRatio().check(BuiltByItsFirstBatch())  # of which nothing is known
    FlipRatio().check(sum_of_layers("one", binary=["one"]))


def test_a_weight_of_0_counts_as_plus_1():
    model = sum_of_layers("one", binary=["one"])
    model.get_layer("one").kernel.assign(np.zeros((3, 4)))
    logs = train(model, keras.optimizers.SGD(0.0), 2, [FlipRatio()])
    assert logs["flips/one"] == [0.0, 0.0]
    up = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: model.get_layer("one").kernel.assign(np.ones((3, 4)))
    )
    model.get_layer("one").kernel.assign(np.zeros((3, 4)))
    assert train(model, None, 1, [FlipRatio(), up])["flips/one"] == [0.0]


@pytest.mark.parametrize(
    ("every", "error"), [(0, ValueError), (1.5, TypeError), (True, TypeError), ("10", TypeError)]
)
def test_looks_are_whole_steps_apart(every, error):
    message = f"`every` must be an integer .*at least 1.*Received: every={every!r}"
    with pytest.raises(error, match=message):
        FlipRatio(every=every)
