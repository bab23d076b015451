import keras
import numpy as np
import pytest
from support import torch_skips
from support.differentiate import IMPLEMENTATIONS, value_and_gradients

from dann.autodiff import gradients
from dann.layers import GradientReversal
from dann.schedules import GaninSchedule


def train_weight(reversal, steps=1, **compiled):
    """Trains a weight w from 0 with the loss w * x for x = 1: each step adds the strength."""
    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    model = keras.Sequential([keras.Input((1,)), dense, reversal])
    model.compile(keras.optimizers.SGD(1.0), lambda y, outputs: keras.ops.mean(outputs), **compiled)
    model.fit(np.ones((steps, 1)), np.ones((steps, 1)), batch_size=1, verbose=0)
    return model


def get_weight(model):
    return float(keras.ops.convert_to_numpy(model.layers[0].kernel)[0, 0])


@pytest.mark.parametrize(
    ("jit_compile", "steps_per_execution"),
    [
        (False, 1),
        pytest.param(True, 1, marks=torch_skips.compiled_schedules),
        pytest.param(False, 20, marks=torch_skips.several_steps),
    ],
)
def test_schedule_advances_in_the_compiled_step(jit_compile, steps_per_execution):
    schedule = GaninSchedule(total_steps=40)
    reversal = GradientReversal(schedule)
    options = {"jit_compile": jit_compile, "steps_per_execution": steps_per_execution}
    model = train_weight(reversal, steps=40, **options)
    assert int(reversal.step) == 40
    assert float(reversal.strength) == pytest.approx(float(schedule(39)))
    expected = sum(float(schedule(step)) for step in range(40))
    assert get_weight(model) == pytest.approx(expected, rel=1e-5)


def test_strength_change_reaches_compiled_gradient():
    reversal = GradientReversal(1.0)
    model = train_weight(reversal)
    for strength, expected in ((0.5, 1.5), (0.25, 1.75)):
        reversal.strength = strength
        model.fit(np.ones((1, 1)), np.ones((1, 1)), verbose=0)
        assert get_weight(model) == pytest.approx(expected)


def test_inference_changes_no_state():
    reversal = GradientReversal(GaninSchedule(total_steps=10))
    reversal(np.ones((1, 1), "float32"), training=False)
    assert int(reversal.step) == 0
    assert float(reversal.strength) == 0.0
    assert reversal.trainable_weights == []
    assert [variable.name for variable in reversal.non_trainable_weights] == ["step", "strength"]


@keras.saving.register_keras_serializable("tests")
def halve(step):
    """Returns half of the step, which must be a float: Keras would refuse int64 and a float."""
    return step / 2.0


@pytest.mark.parametrize(
    "schedule", [keras.optimizers.schedules.PolynomialDecay(0.0, 4, 2.0, power=1.0), halve]
)
def test_keras_schedule_and_function_are_schedules(schedule):
    reversal = GradientReversal(schedule)
    restored = GradientReversal.from_config(reversal.get_config())
    for layer in (reversal, restored):
        for _ in range(4):
            layer(np.ones((1, 1), "float32"), training=True)
        assert float(layer.strength) == pytest.approx(1.5)


def test_every_input_of_a_nest_is_reversed():
    inputs = {"a": keras.Input((2,), name="a"), "b": keras.Input((3,), name="b")}
    network = keras.Model(inputs, GradientReversal(0.5)(inputs))
    arrays = {"a": np.ones((1, 2), "float32"), "b": 2 * np.ones((1, 3), "float32")}
    for name, array in network(arrays).items():
        np.testing.assert_array_equal(array, arrays[name])
    tensors = [keras.ops.ones((2,)), 3 * keras.ops.ones((2,))]

    def loss(first, second):
        first, second = GradientReversal(0.5)([first, second])
        return keras.ops.sum(first * second)

    slopes = [keras.ops.convert_to_numpy(slope) for slope in gradients(loss, tensors)]
    np.testing.assert_allclose(slopes, [[-1.5, -1.5], [-0.5, -0.5]])


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("compiled", [False, True])
def test_each_call_in_a_step_has_its_strength(implementation, compiled):
    """`d/dx (a y(x) + b y(2 x)) = -(s(0) a + 2 s(1) b)`, with `y` the reversal."""
    schedule = GaninSchedule(total_steps=4)
    reversal = GradientReversal(schedule, implementation=implementation)
    a, b = np.array([1.0, -2.0], "float32"), np.array([0.5, 3.0], "float32")

    def twice(x):
        first = keras.ops.multiply(reversal(x, training=True), a)
        return first + keras.ops.multiply(reversal(2 * x, training=True), b)

    if compiled and keras.backend.backend() == "jax":
        pytest.skip("jax.jit cannot change the variables of a layer outside of Keras's own steps")
    inputs = np.array([1.0, 2.0], "float32")
    _, (gradient,) = value_and_gradients(twice, inputs, compiled=compiled)
    strengths = [float(schedule(step)) for step in (0, 1)]
    np.testing.assert_allclose(gradient, -(strengths[0] * a + 2 * strengths[1] * b), rtol=1e-6)
    assert strengths[1] > 0
