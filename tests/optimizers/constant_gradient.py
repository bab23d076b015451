"""A model whose gradient is known in closed form and depends on no weight."""

import keras
import numpy as np
import pytest
from support.arrays import assert_all_equal
from support.torch_skips import several_steps

Decay = keras.optimizers.schedules.InverseTimeDecay
RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(24, 3)).astype("float32")
UPSTREAM = RNG.normal(size=(24, 4)).astype("float32")
BATCH = 4
MODES = {
    "eager": {"run_eagerly": True},
    "xla": {"jit_compile": True},
    "steps at once": {"jit_compile": False, "steps_per_execution": 3},
}
each_mode = pytest.mark.parametrize(
    "mode", ["eager", "xla", pytest.param("steps at once", marks=several_steps)]
)


@keras.saving.register_keras_serializable("tests")
def product(upstream, outputs):
    return keras.ops.mean(upstream * outputs, axis=-1)


def kernel_gradients(epochs):
    """The gradient of a kernel, `x^T u / (batch * units)`, of every step."""
    for _ in range(epochs):
        for start in range(0, len(INPUTS), BATCH):
            x, u = (a[start : start + BATCH].astype("float64") for a in (INPUTS, UPSTREAM))
            yield x.T @ u / u.size


def at(value, step):
    """A number, or a schedule of Keras as its formula has it."""
    if not isinstance(value, Decay):
        return value
    return value.initial_learning_rate / (1 + value.decay_rate * step / value.decay_steps)


def bop_in_numpy(weights, epochs, rate, threshold):
    """Algorithm 1: the signs before the first step and after each, and the averages."""
    average, signs = np.zeros_like(weights), np.where(weights >= 0, 1, -1)
    yield signs, average
    for step, gradient in enumerate(kernel_gradients(epochs)):
        gamma, least = at(rate, step), at(threshold, step)
        average = (1 - gamma) * average + gamma * gradient
        assert (np.abs(np.abs(average) - least) > 1e-6).all()  # rounding decides nothing
        signs = np.where(average * signs > least, -signs, signs)
        yield signs, average


@keras.saving.register_keras_serializable("tests")
class MarkedDense(keras.layers.Dense):
    """A dense layer that marks its kernel as binary."""

    def build(self, input_shape):
        super().build(input_shape)
        self.kernel.binary = True


def sum_of_layers(*names, binary=(), use_bias=True):
    """A model `x -> sum of x K + b` over layers of these names, some of them marked as binary."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((3,))
    layers = [
        (MarkedDense if name in binary else keras.layers.Dense)(4, use_bias=use_bias, name=name)
        for name in names
    ]
    outputs = [layer(inputs) for layer in layers]
    return keras.Model(inputs, keras.layers.Add()(outputs) if names[1:] else outputs[0])


def train(model, optimizer=None, epochs=2, callbacks=(), **mode):
    """Compiles the model unless it is, and trains it on the batches in their order."""
    if optimizer is not None:
        model.compile(optimizer, product, **mode)
    options = {"batch_size": BATCH, "shuffle": False, "verbose": 0, "callbacks": list(callbacks)}
    return model.fit(INPUTS, UPSTREAM, epochs=epochs, **options).history


def values(variables):
    return [keras.ops.convert_to_numpy(variable) for variable in variables]


def assert_equal(one, other):
    """Whether two models and their optimizers hold the same numbers, to the last digit."""
    both = (values([*each.variables, *each.optimizer.variables]) for each in (one, other))
    assert_all_equal(*both)


def assert_resumes(model, again, fit):
    """Whether a model that was loaded trains on as the one that was saved."""
    assert_equal(model, again)
    before = values(model.trainable_variables)
    for one in (model, again):
        fit(one)
    pairs = zip(values(model.trainable_variables), before, strict=True)
    assert sum((now != then).any() for now, then in pairs) > len(before) / 2
    assert_equal(model, again)
