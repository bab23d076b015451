"""Binary layers whose inputs or kernel are quantized in another way than by default."""

import keras
import numpy as np
import pytest
from keras import ops
from small_binary_layers import built, inputs_for
from support.arrays import assert_all_equal
from support.closed_forms import sign
from support.differentiate import as_array as array

from dann.autodiff import gradients
from dann.gradients import binary_sign
from dann.gradients.estimators import EDE, DoReFa, Ternary
from dann.layers import BinaryConv1D, BinaryConv2D, BinaryDense, BinarySign


@pytest.mark.parametrize("estimator", ["htanh", None])
def test_inputs_may_be_whole_numbers_and_stay_as_they_are_without_an_estimator(estimator):
    numbers = np.arange(-4, 4, dtype="int32").reshape(2, 4)
    layer = BinaryDense(3, input_estimator=estimator, use_bias=False)
    for inputs in (numbers, numbers.astype("float32")):
        outputs = array(layer(inputs))
        taken = sign(numbers) if estimator else numbers
        np.testing.assert_allclose(outputs, taken @ array(layer.binary_kernel()), rtol=1e-6)


@pytest.mark.parametrize(
    ("estimator", "levels"),
    [("ternary", [-1, 0, 1]), ("dorefa", [-1, -1 / 3, 1 / 3, 1]), (DoReFa(1, "kernel"), [-1, 1])],
)
def test_other_levels_than_two_are_those_of_the_estimator(estimator, levels):
    layer = BinaryDense(40, kernel_estimator=estimator, use_bias=False)
    outputs = array(layer(np.eye(30, dtype="float32") * 2 - 1))
    kernel = array(layer.binary_kernel())
    np.testing.assert_allclose(np.unique(kernel), levels, rtol=1e-6)
    np.testing.assert_allclose(outputs, (np.eye(30) * 2 - 1) @ kernel, rtol=1e-5, atol=1e-5)
    assert layer.kernel.binary is (len(levels) == 2)


IMAGES = np.random.default_rng(4).normal(size=(8, 6, 6, 2)).astype("float32")
TARGETS = np.random.default_rng(5).normal(size=(8, 3)).astype("float32")


@pytest.mark.tensorflow
def test_all_train_and_come_back_from_a_file_with_their_state(reloaded):
    estimators = {"input_estimator": "stochastic", "kernel_estimator": "ede"}
    layers = [BinaryConv2D(2, 3, **estimators), keras.layers.Flatten()]
    last = BinaryDense(3, input_estimator=EDE(total_steps=9), kernel_estimator=Ternary(0.1))
    model = keras.Sequential([keras.Input((6, 6, 2)), *layers, last])
    model.compile(keras.optimizers.SGD(0.01), "mse", jit_compile=False)
    model.fit(IMAGES, TARGETS, batch_size=4, epochs=2, verbose=0)
    again = reloaded(model)
    assert_all_equal(again.get_weights(), model.get_weights())
    sharpened = again.layers[0].kernel_sign
    assert int(sharpened.step) == 4
    assert float(sharpened.sharpness) == pytest.approx(float(EDE().sharpness_at(3)))
    # Draws go on where they stopped.
    drawn = [array(one(IMAGES, training=True)) for one in (model, again)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != array(model(IMAGES, training=True))).any()


def test_inference_counts_no_step_and_draws_nothing():
    layer = BinaryDense(2, input_estimator="stochastic", kernel_estimator="ede")
    inputs = np.zeros((1, 50), "float32")
    outputs = [array(layer(inputs)) for _ in range(3)]
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert int(layer.kernel_sign.step) == 0
    drawn = [array(layer(inputs, training=True)) for _ in range(5)]
    assert (drawn[0] != drawn).any()
    assert int(layer.kernel_sign.step) == 5


def test_lengths_may_be_unknown_where_strides_are_one():
    images = keras.Input((None, None, 2))
    model = keras.Model(images, BinaryConv2D(3, 3, padding="same", pad_values=1)(images))
    assert model.predict(IMAGES, verbose=0).shape == (8, 6, 6, 3)


@keras.saving.register_keras_serializable("tests")
def ste_sign(x):
    """larq's, as a user writes it: the sign with the gradient of Htanh."""
    clipped = ops.clip(x, -1, 1)
    return clipped + ops.stop_gradient(ops.where(x >= 0, 1.0, -1.0) - clipped)


@keras.saving.register_keras_serializable("tests")
class TwiceTheSlope(keras.layers.Layer):
    """A quantizer that is a layer, with a gradient of its own."""

    def call(self, inputs):
        slope = 2 * inputs
        return slope + ops.stop_gradient(ops.where(inputs >= 0, 1.0, -1.0) - slope)


@pytest.mark.tensorflow
@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_function_or_a_layer_quantizes_with_its_own_gradient(jit_compile):
    inputs = inputs_for(BinaryDense)
    estimators = {"input_estimator": TwiceTheSlope(), "kernel_estimator": ste_sign}
    layer = built(BinaryDense, use_bias=False, **estimators)
    latent = array(layer.kernel)
    upstream = np.random.default_rng(3).integers(-3, 4, (2, 3, 3)).astype("float32")

    def slopes(inputs, latent):
        outputs = lambda *values: layer.stateless_call([values[1]], [], values[0])[0]  # noqa: E731
        return gradients(outputs, [inputs, latent], [upstream])

    tf = pytest.importorskip("tensorflow")
    compiled = tf.function(slopes, jit_compile=True) if jit_compile else slopes
    of_inputs, of_kernel = compiled(ops.array(inputs), ops.array(latent))
    np.testing.assert_array_equal(array(of_inputs), 2 * upstream @ sign(latent).T)
    expected = np.einsum("abi,abj->ij", sign(inputs), upstream) * (np.abs(latent) <= 1)
    np.testing.assert_array_equal(array(of_kernel), expected)
    np.testing.assert_array_equal(array(layer(inputs)), sign(inputs) @ sign(latent))
    assert layer.kernel.binary is True


def test_functions_and_layers_as_estimators_or_activations_come_back_from_a_file(reloaded):
    first = BinaryConv1D(3, 2, input_estimator=TwiceTheSlope(), kernel_estimator=ste_sign)
    last = [keras.layers.Activation(BinarySign()), BinaryDense(2, activation=binary_sign)]
    model = keras.Sequential([keras.Input((6, 2)), first, *last])
    again, inputs = reloaded(model), np.random.default_rng(0).normal(size=(4, 6, 2))
    np.testing.assert_array_equal(array(again(inputs)), array(model(inputs)))
    assert again.layers[0].kernel_quantizer == first.kernel_quantizer
    assert isinstance(again.layers[0].input_sign.estimator.function, TwiceTheSlope)
    assert again.layers[-1].activation is binary_sign
