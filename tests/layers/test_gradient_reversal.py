import keras
import numpy as np
import pytest
from support.differentiate import IMPLEMENTATIONS, value_and_gradients

from dann import layers
from dann.gradients.estimators import MagnitudeAware
from dann.layers import BinaryConv2D, BinaryDense, GradientReversal
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
    "options", [{"jit_compile": False}, {"jit_compile": True}, {"steps_per_execution": 20}]
)
def test_schedule_advances_in_the_compiled_step(options):
    schedule = GaninSchedule(total_steps=40)
    reversal = GradientReversal(schedule)
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
        layer(np.ones((1, 1), "float32"), training=False)
        assert (int(layer.step), float(layer.strength)) == (0, 0.0)
        for _ in range(4):  # one call is one step
            layer([np.ones((1, 1), "float32")] * 2, training=True)
        assert float(layer.strength) == pytest.approx(1.5)
        assert layer.trainable_weights == []
        assert [variable.name for variable in layer.weights] == ["step", "strength"]


def test_nest_of_inputs_passes_a_functional_model():  # `test_certificate.py` has the gradients
    inputs = {"a": keras.Input((2,), name="a"), "b": keras.Input((3,), name="b")}
    network = keras.Model(inputs, GradientReversal(0.5)(inputs))
    arrays = {"a": np.ones((1, 2), "float32"), "b": 2 * np.ones((1, 3), "float32")}
    for name, array in network(arrays).items():
        np.testing.assert_array_equal(array, arrays[name])


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


IMAGES, GRAY_IMAGES = np.zeros((2, 4, 4, 3)), np.zeros((2, 4, 4, 1))


def convolve_unknown_lengths():
    layer = BinaryConv2D(3, 3, padding="same", pad_values=1, strides=2)
    images = keras.Input((None, None, 2))
    layer.build(images.shape)
    layer.apply(images, layer.binary_kernel())


REFUSALS = [
    (lambda: GradientReversal(-0.1), "`strength` to be a finite number >= 0, .*strength=-0.1"),
    (lambda: GradientReversal("1.0"), "schedule of `dann.schedules` in layers.*strength='1.0'"),
    (lambda: GradientReversal(implementation="reverse"), "'op_override'. Received: .*'reverse'"),
    (lambda: GradientReversal(lambda step: 1.0), "function.*under this name Keras has None"),
    (
        lambda: setattr(GradientReversal(GaninSchedule(10)), "strength", 1),
        "without a schedule .*Construct .* a number",
    ),
    (lambda: BinaryDense(2, kernel_estimator=None), "`estimator` to be one of .*estimator=None"),
    (lambda: BinaryDense(2, input_estimator=lambda x: x), "Expected a registered quantizer"),
    (
        lambda: BinaryDense(2, implementation="op_override", kernel_estimator="ede"),
        "one of 'override', 'stop_gradient'. Received: implementation='op_override'",
    ),
    (lambda: BinaryDense(2, input_estimator=MagnitudeAware()), "Use it as `kernel_estimator` only"),
    (lambda: BinaryConv2D(2, 3, lora_rank=1), "BinaryConv2D quantizes its kernel .* lora_rank=1"),
    (lambda: BinaryConv2D(2, 3, padding="same", pad_values=2), "`pad_values` .* -1.0, 0.0, 1.0"),
    (convolve_unknown_lengths, r"inputs of fixed lengths .* strides=\(2, 2\)"),
    (lambda: layers.DomainBlend(rule="product"), "'difference', 'sum'. Received: rule='product'"),
    (lambda: layers.DomainBlend()([IMAGES, GRAY_IMAGES]), "number of channels. Received: 3 and 1"),
    (lambda: layers.RandomConvolution((1, 2)), r"odd sizes. Received: kernel_sizes=\(1, 2\)"),
    (lambda: layers.MultilinearMap().build([(5, 4), (5, 3, 1)]), r"shape \(batch, num_classes\)"),
]


@pytest.mark.parametrize(("call", "words"), REFUSALS, ids=[words for _, words in REFUSALS])
def test_refusal_names_the_argument(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call()
