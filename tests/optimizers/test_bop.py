"""Bop against a loop in NumPy."""

import keras
import numpy as np
import pytest
from constant_gradient import MODES, kernel_gradients, sum_of_layers, train, values

from dann.optimizers import Bop

Decay = keras.optimizers.schedules.InverseTimeDecay
RATES = {
    "numbers": (0.3, 0.02),
    "schedules": (Decay(0.4, 10, 1.0), Decay(0.05, 5, 2.0)),
}


def at(value, step):
    """A number, or a schedule of Keras as its formula has it."""
    if not isinstance(value, Decay):
        return value
    return value.initial_learning_rate / (1 + value.decay_rate * step / value.decay_steps)


def bop_in_numpy(weights, gradients, rate, threshold):
    """Algorithm 1, weight for weight; also tells how many flips there were."""
    weights = np.where(weights >= 0, 1.0, -1.0)
    average, flips = np.zeros_like(weights), 0
    for step, gradient in enumerate(gradients):
        for index in np.ndindex(weights.shape):
            gamma = at(rate, step)
            average[index] = (1 - gamma) * average[index] + gamma * gradient[index]
            large = abs(average[index]) > at(threshold, step)
            if large and (average[index] > 0) == (weights[index] > 0):
                weights[index] = -weights[index]
                flips += 1
            # Rounding decides nothing here.
            assert abs(abs(average[index]) - at(threshold, step)) > 1e-6
    return weights, average, flips


@pytest.mark.parametrize(("rates", "mode"), [("numbers", "eager"), ("schedules", "xla")])
def test_it_flips_the_same_weights_as_the_algorithm(rates, mode):
    model = sum_of_layers("kernel", binary=["kernel"], use_bias=False)
    weights = np.linspace(-0.5, 0.6, 12, dtype="float32").reshape(3, 4)
    weights[1, 2] = 0.0
    model.layers[-1].kernel.assign(weights)
    train(model, Bop(*RATES[rates]), epochs=4, **MODES[mode])
    expected, average, flips = bop_in_numpy(weights, kernel_gradients(4), *RATES[rates])
    assert flips > 12  # some of them more than once
    np.testing.assert_array_equal(values([model.layers[-1].kernel])[0], expected)
    np.testing.assert_allclose(values(model.optimizer._averages)[0], average, rtol=1e-5, atol=1e-8)


def test_a_weight_flips_above_the_threshold_not_at_it():
    weights = keras.Variable([1.0, 1.0, 1.0, -1.0, -1.0, 0.0, 0.0])
    weights.binary = True
    gradient = keras.ops.array([0.5, 0.5625, -0.75, -0.75, 0.75, 0.75, 0.0])
    Bop(learning_rate=0.5, threshold=0.25).apply([gradient], [weights])
    np.testing.assert_array_equal(values([weights])[0], [1, -1, 1, 1, -1, -1, 1])
