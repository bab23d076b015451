"""Layers with a binary kernel against the layers of Keras on signs."""

import keras
import numpy as np
import pytest
from keras import ops
from small_binary_layers import LAYERS, differentiate_bilinear, make_inputs, make_layer, make_linear
from support.arrays import assert_all_equal
from support.closed_forms import sign
from support.differentiate import as_array as array
from support.differentiate import parametrize_mode, run_in_mode

from dann import layers
from dann.autodiff import gradients
from dann.gradients import binary_sign
from dann.gradients.estimators import EDE, DoReFa, MagnitudeAware, Ternary


def get_name(value):
    return getattr(value, "__name__", str(value))


GEOMETRIES = [
    (layers.BinaryDense, {}),
    (layers.BinaryConv1D, {"padding": "causal", "pad_values": 1}),
    (layers.BinaryConv1D, {"padding": "causal", "dilation_rate": 2}),
    (layers.BinaryConv1D, {"padding": "causal", "strides": 2, "pad_values": -1}),
    (layers.BinaryConv2D, {"padding": "same"}),
    (layers.BinaryConv2D, {"padding": "same", "pad_values": 1}),
    (layers.BinaryConv2D, {"padding": "same", "pad_values": -1, "strides": 2}),
    (layers.BinaryConv2D, {"padding": "same", "pad_values": 1, "dilation_rate": 2}),
    (layers.BinaryConv2D, {"padding": "same", "pad_values": 1, "groups": 2}),
    (layers.BinaryConv3D, {"padding": "same", "pad_values": -1}),
    (layers.BinaryConv3D, {"strides": 2}),
    (layers.BinaryDepthwiseConv2D, {"depth_multiplier": 2}),
    (layers.BinaryDepthwiseConv2D, {"padding": "same", "pad_values": 1, "strides": 2}),
    (layers.BinaryConv1DTranspose, {"strides": 3}),
    (layers.BinaryConv3DTranspose, {"strides": 2}),
    (layers.BinaryConv2DTranspose, {"strides": 2}),
]


@pytest.mark.parametrize(
    "policy", ["float32", pytest.param("mixed_float16", marks=pytest.mark.tensorflow)]
)
@pytest.mark.parametrize(("cls", "arguments"), GEOMETRIES, ids=get_name)
def test_values_match_a_convolution_of_signs(cls, arguments, policy):
    inputs = make_inputs(cls)
    layer = make_layer(cls, **arguments, dtype=policy, activation="relu")
    layer.bias.assign(np.arange(layer.bias.shape[0]) - 1.5)
    linear = make_linear(layer, arguments.get("pad_values", 0))
    expected = linear(sign(inputs), sign(array(layer.kernel))) + array(layer.bias)
    outputs = layer(inputs)
    np.testing.assert_array_equal(array(outputs), np.maximum(expected, 0))
    assert tuple(outputs.shape) == tuple(layer.compute_output_shape(inputs.shape))
    assert not getattr(layer.bias, "binary", False)


@pytest.mark.parametrize("scaled", [pytest.param(False, marks=pytest.mark.tensorflow), True])
@pytest.mark.parametrize(
    ("cls", "implementation"),
    [*((cls, "override") for cls in LAYERS), (layers.BinaryConv1D, "stop_gradient")],
    ids=get_name,
)
def test_gradients_pass_the_convolution_and_the_clip(cls, implementation, scaled):
    """The scale of the kernel multiplies gradients and gets no gradient itself."""
    arguments = {"kernel_estimator": "magnitude_aware"} if scaled else {}
    if hasattr(cls, "convolve") and not scaled:
        arguments = {"padding": "same", "pad_values": 1}
    layer = make_layer(cls, implementation=implementation, use_bias=False, **arguments)
    inputs, latent = make_inputs(cls), array(layer.kernel)
    scale, tolerance = (array(layer.kernel_scale()), 1e-4) if scaled else (1.0, 0)
    upstream = np.random.default_rng(3).integers(-3, 4, layer(inputs).shape).astype("float32")

    def call(inputs, kernel):
        return layer.stateless_call([kernel], [], inputs)[0]

    input_gradient, latent_gradient = gradients(call, [inputs, latent], [upstream])
    linear = make_linear(layer, arguments.get("pad_values", 0))
    slopes = differentiate_bilinear(linear, sign(inputs), scale * sign(latent), upstream)
    expected = slopes[0] * (np.abs(inputs) <= 1)
    np.testing.assert_allclose(array(input_gradient), expected, tolerance, tolerance)
    expected = scale * slopes[1] * (np.abs(latent) <= 1)
    np.testing.assert_allclose(array(latent_gradient), expected, tolerance, tolerance)


@pytest.mark.parametrize("cls", [layers.BinaryConv2D, layers.BinaryDepthwiseConv2D])
def test_channels_first_matches_channels_last(cls):
    """XLA compiles the layer, because the CPU kernels of TensorFlow need channels last."""
    settings = {"padding": "same", "pad_values": 1, "kernel_estimator": "magnitude_aware"}
    reference = make_layer(cls, **settings)
    layer = cls(*LAYERS[cls][0], **settings, data_format="channels_first")
    model = keras.Sequential([keras.Input((2, 5, 6)), layer])
    reference.bias.assign(np.arange(reference.bias.shape[0]))
    model.set_weights(reference.get_weights())
    model.compile(jit_compile=True)
    outputs = model.predict(make_inputs(cls).transpose(0, 3, 1, 2), verbose=0)
    expected = array(reference(make_inputs(cls)))
    np.testing.assert_allclose(outputs.transpose(0, 2, 3, 1), expected, 1e-5, 1e-5)


@pytest.mark.parametrize("cls", LAYERS, ids=get_name)
def test_scale_is_per_output_channel(cls):
    # The layer replaces the axis of the estimator.
    layer = make_layer(cls, kernel_estimator=MagnitudeAware(0), use_bias=False)
    code, scale = array(layer.binary_kernel()), array(layer.kernel_scale())
    assert set(np.unique(code)) == {-1.0, 1.0}
    assert layer.kernel.binary is True
    pooled = tuple(np.flatnonzero(np.array(scale.shape) == 1))
    expected = np.abs(array(layer.kernel)).mean(axis=pooled, keepdims=True)
    np.testing.assert_allclose(scale, expected, rtol=1e-6)
    outputs = array(layer(make_inputs(cls)))
    assert scale.size == outputs.shape[-1]
    unscaled = make_linear(layer)(sign(make_inputs(cls)), code)
    np.testing.assert_allclose(outputs, unscaled * scale.reshape(-1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("cls", [layers.BinaryDense, layers.BinaryDepthwiseConv2D])
def test_latent_weights_are_clipped_by_default(cls, clip):
    """The optimizer clips after a step of 0.5."""
    layer = make_layer(cls, clip=clip)
    before, shape = array(layer.kernel), layer.kernel.shape
    keras.optimizers.SGD(1.0).apply([ops.full(shape, -0.5)], [layer.kernel])
    expected = np.clip(before + 0.5, -1, 1) if clip else before + 0.5
    np.testing.assert_allclose(array(layer.kernel), expected, rtol=1e-6)


@pytest.mark.parametrize("estimator", ["htanh", None])
def test_integer_inputs_with_and_without_estimator(estimator):
    numbers = np.arange(-4, 4, dtype="int32").reshape(2, 4)
    layer = layers.BinaryDense(3, input_estimator=estimator, use_bias=False)
    for inputs in (numbers, numbers.astype("float32")):
        outputs = array(layer(inputs))
        quantized = sign(numbers) if estimator else numbers
        np.testing.assert_allclose(outputs, quantized @ array(layer.binary_kernel()), rtol=1e-6)


@pytest.mark.parametrize(
    ("estimator", "levels"),
    [("ternary", [-1, 0, 1]), ("dorefa", [-1, -1 / 3, 1 / 3, 1]), (DoReFa(1, "kernel"), [-1, 1])],
)
def test_kernel_has_the_levels_of_the_estimator(estimator, levels):
    layer = layers.BinaryDense(40, kernel_estimator=estimator, use_bias=False)
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
    first = layers.BinaryConv2D(2, 3, **estimators)
    last = layers.BinaryDense(3, input_estimator=EDE(total_steps=9), kernel_estimator=Ternary(0.1))
    model = keras.Sequential([keras.Input((6, 6, 2)), first, keras.layers.Flatten(), last])
    model.compile(keras.optimizers.SGD(0.01), "mse", jit_compile=False)
    model.fit(IMAGES, TARGETS, batch_size=4, epochs=2, verbose=0)
    assert_all_equal(*(array(model(IMAGES)) for _ in range(2)))  # counts and draws nothing
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


@pytest.mark.tensorflow  # JAX halves the gradient of `clip` at its edges
@parametrize_mode
def test_quantizer_uses_its_own_gradient(mode):
    inputs = make_inputs(layers.BinaryDense)
    estimators = {"input_estimator": TwiceTheSlope(), "kernel_estimator": ste_sign}
    layer = make_layer(layers.BinaryDense, use_bias=False, **estimators)
    latent = array(layer.kernel)
    upstream = np.random.default_rng(3).integers(-3, 4, (2, 3, 3)).astype("float32")

    def slopes(inputs, latent):
        outputs = lambda *values: layer.stateless_call([values[1]], [], values[0])[0]  # noqa: E731
        return gradients(outputs, [inputs, latent], [upstream])

    run = run_in_mode(slopes, mode)
    input_gradient, kernel_gradient = run(ops.array(inputs), ops.array(latent))
    np.testing.assert_array_equal(array(input_gradient), 2 * upstream @ sign(latent).T)
    expected = np.einsum("abi,abj->ij", sign(inputs), upstream) * (np.abs(latent) <= 1)
    np.testing.assert_array_equal(array(kernel_gradient), expected)
    np.testing.assert_array_equal(array(layer(inputs)), sign(inputs) @ sign(latent))
    assert layer.kernel.binary is True


def test_quantizers_and_activations_are_saved(reloaded):
    first = layers.BinaryConv1D(3, 2, input_estimator=TwiceTheSlope(), kernel_estimator=ste_sign)
    last = layers.BinaryDense(2, activation=binary_sign)
    model = keras.Sequential([keras.Input((6, 2)), first, layers.BinarySign(), last])
    loaded, inputs = reloaded(model), np.random.default_rng(0).normal(size=(4, 6, 2))
    np.testing.assert_array_equal(array(loaded(inputs)), array(model(inputs)))
    assert loaded.layers[0].kernel_quantizer == first.kernel_quantizer
    assert isinstance(loaded.layers[0].input_sign.estimator.function, TwiceTheSlope)
    assert loaded.layers[-1].activation is binary_sign
