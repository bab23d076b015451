"""Shares of flips against those of a loop in NumPy."""

import keras
import numpy as np
import pytest
from constant_gradient import BATCH, INPUTS, kernel_gradients, sum_of_layers, train, values

from dann.optimizers import Bop, FlipRatio, PerVariable

STEPS = len(INPUTS) // BATCH


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


def test_layers_of_one_name_count_together():
    inner = [sum_of_layers("same", binary=["same"]) for _ in range(2)]
    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.layers.Add()([part(inputs) for part in inner]))
    before = values([part.get_layer("same").kernel for part in inner])
    logs = train(model, keras.optimizers.SGD(1.0), 1, [FlipRatio()])
    after = values([part.get_layer("same").kernel for part in inner])
    flips = [np.mean((one >= 0) != (other >= 0)) for one, other in zip(before, after, strict=True)]
    assert logs["flips/same"] == [pytest.approx(np.mean(flips))]


def test_a_model_without_binary_layers_is_refused():
    model = sum_of_layers("float")
    with pytest.raises(ValueError, match=f"Received: {model.name}, in which none trains"):
        train(model, keras.optimizers.SGD(0.1), 1, [FlipRatio()])


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


@pytest.mark.parametrize(("every", "error"), [(0, ValueError), (1.5, TypeError)])
def test_looks_are_whole_steps_apart(every, error):
    with pytest.raises(error):
        FlipRatio(every=every)
