"""Values and variables that overridden functions read instead of taking them as inputs."""

import keras
import numpy as np
import pytest
from keras import ops
from support.differentiate import BACKEND, tensor, value_and_gradients

from dann.gradients import override_gradient, surrogate_gradient

INPUTS = np.ones((4, 3), "float32")
MODES = [{"run_eagerly": True}, {}] + [{"jit_compile": True}] * (BACKEND != "torch")


@pytest.mark.parametrize("compiled", [False, True])
def test_each_call_or_trace_reads_python_values(compiled):
    numbers = {"forward": 2.0, "backward": 1.0}
    function = override_gradient(
        lambda x: numbers["forward"] * x, lambda u, x: -numbers["backward"] * u
    )
    inputs = tensor([1.0], "float32")
    for forward, backward in ((2.0, 1.0), (5.0, 0.5)):
        numbers.update(forward=forward, backward=backward)
        value, (gradient,) = value_and_gradients(function, inputs, compiled=compiled)
        assert (value.tolist(), gradient.tolist()) == ([forward], [-backward])


class Reversal(keras.layers.Layer):
    """Gradient reversal whose backward pass reads an attribute."""

    def __init__(self, strength):
        super().__init__()
        self.strength = strength
        self.reverse = override_gradient(lambda x: x, lambda u, x: -self.strength * u)

    def call(self, inputs):
        return self.reverse(inputs)


def make_model(layer, **mode):
    dense = keras.layers.Dense(2, use_bias=False, kernel_initializer="ones")
    model = keras.Sequential([keras.Input((3,)), dense, layer])
    model.compile(keras.optimizers.SGD(1.0), "mse", **mode)
    return model


def move_kernel(model):
    """Returns how far a step moves each weight: -3 times the strength, as L' = (2/8) 4 (3 - 0)."""
    before = model.get_weights()[0]
    model.fit(INPUTS, np.zeros((4, 2), "float32"), batch_size=4, verbose=0)
    return (model.get_weights()[0] - before).tolist()


@pytest.mark.parametrize("mode", MODES)
def test_backward_reads_a_variable_in_fit(mode):
    strength = keras.Variable(0.5, trainable=False)
    model = make_model(Reversal(strength), **mode)
    assert move_kernel(model) == [[1.5] * 2] * 3
    strength.assign(0.0)
    assert move_kernel(model) == [[0.0] * 2] * 3


@pytest.mark.skipif(BACKEND != "jax", reason="other backends run `backward` within the step")
def test_random_state_in_backward_is_refused_on_jax():
    seed = keras.random.SeedGenerator(0)
    layer = Reversal(seed.state)
    layer.reverse = override_gradient(
        lambda x: x, lambda u, x: u * keras.random.uniform((1,), seed=seed)
    )
    with pytest.raises(ValueError, match="assignment of .*seed_generator_state.*as an input"):
        move_kernel(make_model(layer))


def make_variable():
    if BACKEND == "tensorflow":
        import tensorflow as tf

        return tf.Variable(2.0)
    import torch

    return torch.nn.Parameter(torch.tensor(2.0))


@pytest.mark.skipif(BACKEND == "jax", reason="JAX has no variables of its own")
@pytest.mark.parametrize("compiled", [False, True])
def test_variable_of_the_backend_is_an_input_or_refused(compiled):
    weight = make_variable()
    inputs = tensor(3.0, "float32")

    def read(x):
        return ops.sign(x * weight)

    for function in (override_gradient(read, lambda u, x: u), surrogate_gradient(read, ops.abs)):
        with pytest.raises(ValueError, match=r"as inputs.*reads \['(Variable|Parameter)"):
            value_and_gradients(function, inputs, compiled=compiled)
    product = override_gradient(lambda x, w: x * w, lambda u, x, w: (5 * u, 7 * u))
    assert value_and_gradients(product, inputs, weight, compiled=compiled)[1] == [5, 7]
    shared = surrogate_gradient(read, lambda x: x * weight)
    assert value_and_gradients(shared, inputs, compiled=compiled)[1] == [2]
