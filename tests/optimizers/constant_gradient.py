"""A model whose gradient has a closed form that does not depend on its weights."""

import keras
import numpy as np
import pytest
from support.arrays import assert_all_equal

Decay = keras.optimizers.schedules.InverseTimeDecay
RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(24, 3)).astype("float32")
UPSTREAM = RNG.normal(size=(24, 4)).astype("float32")
BATCH, STEPS = 4, 6  # steps per epoch
MODES = {"eager": {"run_eagerly": True}, "xla": {"jit_compile": True}}
MODES |= {"steps at once": {"jit_compile": False, "steps_per_execution": 3}}
PARAMS = "eager", "steps at once", pytest.param("xla", marks=pytest.mark.slow)
for_each_mode = pytest.mark.parametrize("mode", PARAMS)


@keras.saving.register_keras_serializable("tests")
def product(upstream, outputs):
    return keras.ops.mean(upstream * outputs, axis=-1)


def kernel_gradients(epochs):
    """Yields the gradient of a kernel in each step, `x^T u / (batch * units)`."""
    for _ in range(epochs):
        for start in range(0, STEPS * BATCH, BATCH):
            x, u = (a[start : start + BATCH].astype("float64") for a in (INPUTS, UPSTREAM))
            yield x.T @ u / u.size


def evaluate_schedule(value, step):
    """Returns a number, or the value of a Keras schedule by its formula."""
    if not isinstance(value, Decay):
        return value
    return value.initial_learning_rate / (1 + value.decay_rate * step / value.decay_steps)


def bop_in_numpy(weights, epochs, rate, threshold):
    """Yields the signs and averages of algorithm 1, before the first step and after each step."""
    average, signs = np.zeros_like(weights), np.where(weights >= 0, 1, -1)
    yield signs, average
    for step, gradient in enumerate(kernel_gradients(epochs)):
        gamma, tau = evaluate_schedule(rate, step), evaluate_schedule(threshold, step)
        average = (1 - gamma) * average + gamma * gradient
        assert (np.abs(np.abs(average) - tau) > 1e-6).all()  # no flip depends on rounding
        signs = np.where(average * signs > tau, -signs, signs)
        yield signs, average


@keras.saving.register_keras_serializable("tests")
class MarkedDense(keras.layers.Dense):
    """Dense layer that marks its kernel as binary."""

    def build(self, input_shape):
        super().build(input_shape)
        self.kernel.binary = True


def make_layer_sum(*names, binary=(), use_bias=True):
    """Returns a model `x -> sum of x K + b` over named layers, some of them marked as binary."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((3,))
    layers = [
        (MarkedDense if name in binary else keras.layers.Dense)(4, use_bias=use_bias, name=name)
        for name in names
    ]
    outputs = [layer(inputs) for layer in layers]
    return keras.Model(inputs, keras.layers.Add()(outputs) if names[1:] else outputs[0])


def train(model, optimizer=None, epochs=2, callbacks=(), **mode):
    """Trains a model on the batches in order, and compiles it first if there is an optimizer."""
    if optimizer is not None:
        model.compile(optimizer, product, **mode)
    options = {"batch_size": BATCH, "shuffle": False, "verbose": 0, "callbacks": list(callbacks)}
    return model.fit(INPUTS, UPSTREAM, epochs=epochs, **options).history


def values(variables):
    return [keras.ops.convert_to_numpy(variable) for variable in variables]


def assert_resumes(model, loaded, fit):
    """Asserts that a loaded model continues training exactly, bit for bit, as the saved model."""

    def assert_equal():
        assert_all_equal(*(values([*m.variables, *m.optimizer.variables]) for m in (model, loaded)))

    assert_equal()
    before = values(model.trainable_variables)
    fit(model)
    fit(loaded)
    pairs = zip(values(model.trainable_variables), before, strict=True)
    assert sum((new != old).any() for new, old in pairs) > len(before) / 2
    assert_equal()
