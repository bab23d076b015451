"""Binary layers with estimators other than the default."""

import keras
import numpy as np
import pytest
from keras import ops
from small_binary_layers import make_inputs, make_layer
from support.arrays import assert_all_equal
from support.closed_forms import sign
from support.differentiate import as_array as array

from dann.autodiff import gradients
from dann.gradients import binary_sign
from dann.gradients.estimators import EDE, DoReFa, Ternary
from dann.layers import BinaryConv1D, BinaryConv2D, BinaryDense, BinarySign


@pytest.mark.parametrize("estimator", ["htanh", None])
def test_integer_inputs_with_and_without_estimator(estimator):
    numbers = np.arange(-4, 4, dtype="int32").reshape(2, 4)
    layer = BinaryDense(3, input_estimator=estimator, use_bias=False)
    for inputs in (numbers, numbers.astype("float32")):
        outputs = array(layer(inputs))
        quantized = sign(numbers) if estimator else numbers
        np.testing.assert_allclose(outputs, quantized @ array(layer.binary_kernel()), rtol=1e-6)


@pytest.mark.parametrize(
    ("estimator", "levels"),
    [("ternary", [-1, 0, 1]), ("dorefa", [-1, -1 / 3, 1 / 3, 1]), (DoReFa(1, "kernel"), [-1, 1])],
)
def test_kernel_has_the_levels_of_the_estimator(estimator, levels):
    layer = BinaryDense(40, kernel_estimator=estimator, use_bias=False)
    outputs = array(layer(np.eye(30, dtype="float32") * 2 - 1))
    kernel = array(layer.binary_kernel())
    np.testing.assert_allclose(np.unique(kernel), levels, rtol=1e-6)
    np.testing.assert_allclose(outputs, (np.eye(30) * 2 - 1) @ kernel, rtol=1e-5, atol=1e-5)
    assert layer.kernel.binary is (len(levels) == 2)


IMAGES = np.random.default_rng(4).normal(size=(8, 6, 6, 2)).astype("float32")
TARGETS = np.random.default_rng(5).normal(size=(8, 3)).astype("float32")


@pytest.mark.tensorflow
def test_state_of_estimators_is_saved(reloaded):
    estimators = {"input_estimator": "stochastic", "kernel_estimator": "ede"}
    layers = [BinaryConv2D(2, 3, **estimators), keras.layers.Flatten()]
    last = BinaryDense(3, input_estimator=EDE(total_steps=9), kernel_estimator=Ternary(0.1))
    model = keras.Sequential([keras.Input((6, 6, 2)), *layers, last])
    model.compile(keras.optimizers.SGD(0.01), "mse", jit_compile=False)
    model.fit(IMAGES, TARGETS, batch_size=4, epochs=2, verbose=0)
    loaded = reloaded(model)
    assert_all_equal(loaded.get_weights(), model.get_weights())
    sharpened = loaded.layers[0].kernel_sign
    assert int(sharpened.step) == 4
    assert float(sharpened.sharpness) == pytest.approx(float(EDE().sharpness_at(3)))
    # The random numbers continue where they stopped.
    outputs, loaded_outputs = (array(m(IMAGES, training=True)) for m in (model, loaded))
    np.testing.assert_array_equal(outputs, loaded_outputs)
    assert (outputs != array(model(IMAGES, training=True))).any()


@keras.saving.register_keras_serializable("tests")
def ste_sign(x):
    """Returns the sign with the gradient of Htanh, as in larq."""
    clipped = ops.clip(x, -1, 1)
    return clipped + ops.stop_gradient(ops.where(x >= 0, 1.0, -1.0) - clipped)


@keras.saving.register_keras_serializable("tests")
class TwiceTheSlope(keras.layers.Layer):
    """A quantizer layer with its own gradient."""

    def call(self, inputs):
        slope = 2 * inputs
        return slope + ops.stop_gradient(ops.where(inputs >= 0, 1.0, -1.0) - slope)


@pytest.mark.tensorflow
@pytest.mark.parametrize("jit_compile", [False, True])
def test_quantizer_uses_its_own_gradient(jit_compile):
    inputs = make_inputs(BinaryDense)
    estimators = {"input_estimator": TwiceTheSlope(), "kernel_estimator": ste_sign}
    layer = make_layer(BinaryDense, use_bias=False, **estimators)
    latent = array(layer.kernel)
    upstream = np.random.default_rng(3).integers(-3, 4, (2, 3, 3)).astype("float32")

    def slopes(inputs, latent):
        outputs = lambda *values: layer.stateless_call([values[1]], [], values[0])[0]  # noqa: E731
        return gradients(outputs, [inputs, latent], [upstream])

    tf = pytest.importorskip("tensorflow")
    compiled = tf.function(slopes, jit_compile=True) if jit_compile else slopes
    input_gradient, kernel_gradient = compiled(ops.array(inputs), ops.array(latent))
    np.testing.assert_array_equal(array(input_gradient), 2 * upstream @ sign(latent).T)
    expected = np.einsum("abi,abj->ij", sign(inputs), upstream) * (np.abs(latent) <= 1)
    np.testing.assert_array_equal(array(kernel_gradient), expected)
    np.testing.assert_array_equal(array(layer(inputs)), sign(inputs) @ sign(latent))
    assert layer.kernel.binary is True


def test_quantizers_and_activations_are_saved(reloaded):
    first = BinaryConv1D(3, 2, input_estimator=TwiceTheSlope(), kernel_estimator=ste_sign)
    last = [keras.layers.Activation(BinarySign()), BinaryDense(2, activation=binary_sign)]
    model = keras.Sequential([keras.Input((6, 2)), first, *last])
    loaded, inputs = reloaded(model), np.random.default_rng(0).normal(size=(4, 6, 2))
    np.testing.assert_array_equal(array(loaded(inputs)), array(model(inputs)))
    assert loaded.layers[0].kernel_quantizer == first.kernel_quantizer
    assert isinstance(loaded.layers[0].input_sign.estimator.function, TwiceTheSlope)
    assert loaded.layers[-1].activation is binary_sign


def test_inference_counts_and_draws_nothing():
    layer = BinaryDense(2, input_estimator="stochastic", kernel_estimator="ede")
    inputs = np.zeros((1, 50), "float32")
    outputs = [array(layer(inputs)) for _ in range(3)]
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert int(layer.kernel_sign.step) == 0
    outputs = [array(layer(inputs, training=True)) for _ in range(5)]
    assert (outputs[0] != outputs).any()
    assert int(layer.kernel_sign.step) == 5
