import contextlib
import math

import keras
import numpy as np
import pytest
from support import lacking
from support.differentiate import WAYS, value_and_gradients

from dann.autodiff import gradients
from dann.layers import GradientReversal
from dann.schedules import Constant, GaninSchedule


def trained_weight(reversal, epochs=1, steps=1, learning_rate=1.0, **compiled):
    """A weight w, from 0, under the loss w * x with x = 1, so that each step adds the strength."""
    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    model = keras.Sequential([keras.Input((1,)), dense, reversal])
    model.compile(
        keras.optimizers.SGD(learning_rate), lambda y, outputs: keras.ops.mean(outputs), **compiled
    )
    model.fit(np.ones((steps, 1)), np.ones((steps, 1)), batch_size=1, epochs=epochs, verbose=0)
    return model


def weight(model):
    return float(keras.ops.convert_to_numpy(model.layers[0].kernel)[0, 0])


@pytest.mark.parametrize(
    "jit_compile", [False, pytest.param(True, marks=lacking.compiled_schedules)]
)
@pytest.mark.parametrize("steps_per_execution", [1, pytest.param(20, marks=lacking.several_steps)])
def test_a_schedule_advances_inside_the_compiled_step(jit_compile, steps_per_execution):
    schedule = GaninSchedule(total_steps=40)
    reversal = GradientReversal(schedule)
    model = trained_weight(
        reversal, steps=40, jit_compile=jit_compile, steps_per_execution=steps_per_execution
    )
    assert int(reversal.step) == 40
    assert float(reversal.strength) == pytest.approx(float(schedule(39)))
    assert weight(model) == pytest.approx(
        sum(float(schedule(step)) for step in range(40)), rel=1e-5
    )


class CountingSchedule(GaninSchedule):
    calls = 0

    def __call__(self, step):
        type(self).calls += 1
        return super().__call__(step)


@lacking.compiled
def test_a_schedule_takes_one_trace():
    CountingSchedule.calls = 0
    reversal = GradientReversal(CountingSchedule(total_steps=100))
    at_construction = CountingSchedule.calls
    trained_weight(reversal, steps=40, epochs=2, steps_per_execution=20, jit_compile=True)
    # Keras traces a symbolic call to build the model, and one step inside its loop.
    assert CountingSchedule.calls - at_construction <= 3
    assert int(reversal.step) == 80


@pytest.mark.parametrize("way", ["assign", "attribute"])
def test_a_new_strength_changes_the_compiled_gradient(way):
    reversal = GradientReversal(1.0)
    model = trained_weight(reversal)
    assert weight(model) == pytest.approx(1.0)
    if way == "assign":
        reversal.strength.assign(0.5)
    else:
        reversal.strength = 0.5
    model.fit(np.ones((1, 1)), np.ones((1, 1)), verbose=0)
    assert weight(model) == pytest.approx(1.5)


def test_a_reloaded_model_resumes_at_the_same_step_and_strength(tmp_path):
    schedule = GaninSchedule(total_steps=10)
    reversal = GradientReversal(schedule)
    model = trained_weight(reversal, steps=3)
    keras.Sequential([keras.Input((1,)), *model.layers]).save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert int(again.layers[-1].step) == 3
    assert float(again.layers[-1].strength) == pytest.approx(float(schedule(2)))
    again.compile(keras.optimizers.SGD(1.0), lambda y, outputs: keras.ops.mean(outputs))
    again.fit(np.ones((1, 1)), np.ones((1, 1)), verbose=0)
    assert weight(again) - weight(model) == pytest.approx(float(schedule(3)), rel=1e-5)
    assert int(again.layers[-1].step) == 4


def test_inference_neither_counts_nor_changes_the_strength():
    reversal = GradientReversal(GaninSchedule(total_steps=10))
    reversal(np.ones((1, 1), "float32"), training=False)
    assert int(reversal.step) == 0
    assert float(reversal.strength) == 0.0


@pytest.mark.parametrize("way", ["override", "op_override"])
def test_a_schedule_that_never_begins_warns_where_a_gradient_needs_it(way):
    """A training loop that forgets `training=True` descends with the first strength, here 0."""
    if way == "op_override" and keras.backend.backend() != "tensorflow":
        pytest.skip("only TensorFlow overrides operations")
    reversal = GradientReversal(GaninSchedule(10), way=way, name="forgotten")
    inputs = keras.ops.ones((2, 3))

    def slope():
        (found,) = gradients(lambda x: keras.ops.sum(reversal(x)), [inputs])
        return keras.ops.convert_to_numpy(found)[0, 0]

    with pytest.warns(
        UserWarning, match="'forgotten' stays at its first.* strength of 0.*training"
    ):
        assert slope() == 0
    for _ in range(2):
        reversal(inputs, training=True)
    assert slope() == pytest.approx(-(2 / (1 + np.exp(-1)) - 1))  # without a warning


@pytest.mark.parametrize("steps", [0, 2])
def test_a_reloaded_or_cloned_schedule_has_begun_if_it_had_before(steps, tmp_path):
    model = keras.Sequential([keras.Input((3,)), GradientReversal(GaninSchedule(10))])
    for _ in range(steps):
        model(np.ones((1, 3), "float32"), training=True)
    model.save(tmp_path / "model.keras")
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    for one in (keras.models.load_model(tmp_path / "model.keras"), clone):
        told = contextlib.nullcontext() if steps else pytest.warns(UserWarning, match="stays at")
        with told:
            (found,) = gradients(lambda x: keras.ops.sum(one(x)), [keras.ops.ones((1, 3))])  # noqa: B023
        expected = -(2 / (1 + np.exp(-1)) - 1) if steps else 0
        np.testing.assert_allclose(keras.ops.convert_to_numpy(found), expected, rtol=1e-6)


def test_its_state_does_not_train():
    reversal = GradientReversal(0.5)
    assert reversal.trainable_weights == []
    assert [variable.name for variable in reversal.non_trainable_weights] == ["step", "strength"]


@pytest.mark.parametrize("strength", [-0.1, float("nan"), float("inf")])
def test_a_strength_that_is_negative_or_not_finite_is_refused(strength):
    with pytest.raises(ValueError, match=f"at least 0.*Received: strength={strength}"):
        GradientReversal(strength)


@pytest.mark.parametrize("strength", ["1.0", None, True, [0.5]])
def test_a_strength_that_is_no_number_is_refused(strength):
    with pytest.raises(TypeError, match="number.* schedule of `dann.schedules`. Received"):
        GradientReversal(strength)


def test_an_unknown_way_is_refused():
    with pytest.raises(ValueError, match="`way` must be one of .*'override'"):
        GradientReversal(way="reverse")


def test_a_schedule_and_a_number_are_both_kept_in_the_config():
    assert GradientReversal(0.5).get_config()["strength"] == 0.5
    again = GradientReversal.from_config(GradientReversal(Constant(0.2)).get_config())
    assert again.schedule == Constant(0.2)


def test_a_strength_that_is_set_is_checked_and_does_not_fight_a_schedule():
    reversal = GradientReversal(1.0)
    with pytest.raises(ValueError, match="at least 0.*Received: strength=-1"):
        reversal.strength = -1
    scheduled = GradientReversal(GaninSchedule(total_steps=10))
    with pytest.raises(ValueError, match="follows the schedule.*Received: strength=0.5"):
        scheduled.strength = 0.5


@keras.saving.register_keras_serializable("tests")
def half_of_the_steps(step):
    return keras.ops.cast(step, "float32") / 2


@pytest.mark.parametrize(
    "schedule",
    [keras.optimizers.schedules.PolynomialDecay(0.0, 4, 2.0, power=1.0), half_of_the_steps],
)
def test_a_schedule_of_keras_and_a_function_are_schedules_too(schedule):
    reversal = GradientReversal(schedule)
    again = GradientReversal.from_config(reversal.get_config())
    for layer in (reversal, again):
        for _ in range(4):
            layer(np.ones((1, 1), "float32"), training=True)
        assert float(layer.strength) == pytest.approx(1.5)


@keras.saving.register_keras_serializable("tests")
def tenths(step):
    return step / 10.0


def test_a_function_divides_the_step_as_a_float():
    """Keras's int64 and a float would be refused."""
    reversal = GradientReversal(tenths)
    assert weight(trained_weight(reversal, steps=3)) == pytest.approx(0.0 + 0.1 + 0.2)


def test_a_function_without_a_name_for_files_is_refused():
    with pytest.raises(ValueError, match="register_keras_serializable.*above its definition"):
        GradientReversal(lambda step: 1.0)


@keras.saving.register_keras_serializable("tests")
def by_the_math_module(step):
    return 1 - math.exp(-step / 10)


@keras.saving.register_keras_serializable("tests")
def by_if(step):
    return 0.0 if step < 2 else 1.0


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="PyTorch runs any Python")
@pytest.mark.parametrize("strength", [by_the_math_module, by_if])
def test_a_function_that_cannot_be_compiled_is_told_to_use_the_operations_of_keras(strength):
    with pytest.raises(TypeError, match="`keras.ops.where` for `if`.*Received: <function by_"):
        trained_weight(GradientReversal(strength), steps=3)


def test_each_of_several_inputs_is_reversed_and_keeps_its_place():
    inputs = {"a": keras.Input((2,), name="a"), "b": keras.Input((3,), name="b")}
    network = keras.Model(inputs, GradientReversal(0.5)(inputs))
    given = {"a": np.ones((1, 2), "float32"), "b": 2 * np.ones((1, 3), "float32")}
    for name, array in network(given).items():
        np.testing.assert_array_equal(array, given[name])
    several = [keras.ops.ones((2,)), 3 * keras.ops.ones((2,))]

    def loss(first, second):
        first, second = GradientReversal(0.5)([first, second])
        return keras.ops.sum(first * second)

    found = [keras.ops.convert_to_numpy(slope) for slope in gradients(loss, several)]
    np.testing.assert_allclose(found, [[-1.5, -1.5], [-0.5, -0.5]])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("compiled", [False, True])
def test_two_calls_of_a_step_have_each_its_own_strength(way, compiled):
    """`d/dx (a y(x) + b y(2 x)) = -(s(0) a + 2 s(1) b)`, with `y` the reversal."""
    schedule = GaninSchedule(total_steps=4)
    reversal = GradientReversal(schedule, way=way)
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
