"""Layers with a binary kernel against the layers of Keras on signs."""

import inspect

import keras
import numpy as np
import pytest
from keras import ops
from small_binary_layers import LAYERS, differentiate_bilinear, make_inputs, make_layer, make_linear
from support.arrays import assert_all_equal
from support.closed_forms import sign
from support.differentiate import as_array as array

from dann.autodiff import gradients
from dann.gradients import binary_sign
from dann.gradients.estimators import EDE, DoReFa, MagnitudeAware, Ternary
from dann.layers import (
    BinaryConv1D,
    BinaryConv1DTranspose,
    BinaryConv2D,
    BinaryConv2DTranspose,
    BinaryConv3D,
    BinaryConv3DTranspose,
    BinaryDense,
    BinaryDepthwiseConv2D,
    BinarySign,
)


def get_name(value):
    return getattr(value, "__name__", str(value))


parametrize_class = pytest.mark.parametrize("cls", LAYERS, ids=get_name)


GEOMETRIES = [
    (BinaryDense, {}),
    (BinaryConv1D, {"padding": "causal", "pad_values": 1}),
    (BinaryConv1D, {"padding": "causal", "dilation_rate": 2}),
    (BinaryConv1D, {"padding": "causal", "strides": 2, "pad_values": -1}),
    (BinaryConv2D, {"padding": "same"}),
    (BinaryConv2D, {"padding": "same", "pad_values": 1}),
    (BinaryConv2D, {"padding": "same", "pad_values": -1, "strides": 2}),
    (BinaryConv2D, {"padding": "same", "pad_values": 1, "dilation_rate": 2}),
    (BinaryConv2D, {"padding": "same", "pad_values": 1, "groups": 2}),
    (BinaryConv3D, {"padding": "same", "pad_values": -1}),
    (BinaryConv3D, {"strides": 2}),
    (BinaryDepthwiseConv2D, {"depth_multiplier": 2}),
    (BinaryDepthwiseConv2D, {"padding": "same", "pad_values": 1, "strides": 2}),
    (BinaryConv1DTranspose, {"strides": 3}),
    (BinaryConv3DTranspose, {"strides": 2}),
    (BinaryConv2DTranspose, {"strides": 2}),
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


def check_gradients(layer, inputs, scale, value, tolerance):
    """Compares the gradients of the inputs and the latent kernel with basis vectors."""
    latent = array(layer.kernel)
    kernel = scale * sign(latent)
    upstream = np.random.default_rng(3).integers(-3, 4, layer(inputs).shape).astype("float32")

    def call(inputs, kernel):
        return layer.stateless_call([kernel], [], inputs)[0]

    input_gradient, latent_gradient = gradients(call, [inputs, latent], [upstream])
    input_slope, kernel_slope = differentiate_bilinear(
        make_linear(layer, value), sign(inputs), kernel, upstream
    )
    expected = input_slope * (np.abs(inputs) <= 1)
    np.testing.assert_allclose(array(input_gradient), expected, tolerance, tolerance)
    expected = scale * kernel_slope * (np.abs(latent) <= 1)
    np.testing.assert_allclose(array(latent_gradient), expected, tolerance, tolerance)


@pytest.mark.parametrize("scaled", [pytest.param(False, marks=pytest.mark.tensorflow), True])
@pytest.mark.parametrize(
    ("cls", "implementation"),
    [*((cls, "override") for cls in LAYERS), (BinaryConv1D, "stop_gradient")],
    ids=get_name,
)
def test_gradients_pass_the_convolution_and_the_clip(cls, implementation, scaled):
    """The scale of the kernel multiplies gradients and gets no gradient itself."""
    if scaled:
        layer = make_layer(
            cls, implementation=implementation, use_bias=False, kernel_estimator="magnitude_aware"
        )
        check_gradients(layer, make_inputs(cls), array(layer.kernel_scale()), 0, 1e-4)
        return
    is_padded = hasattr(cls, "convolve")
    arguments = {"padding": "same", "pad_values": 1} if is_padded else {}
    layer = make_layer(cls, implementation=implementation, use_bias=False, **arguments)
    check_gradients(layer, make_inputs(cls), 1.0, arguments.get("pad_values", 0), tolerance=0)


@pytest.mark.parametrize("cls", [BinaryConv2D, BinaryDepthwiseConv2D])
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


@parametrize_class
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
@pytest.mark.parametrize("cls", [BinaryDense, BinaryDepthwiseConv2D])
def test_latent_weights_are_clipped_by_default(cls, clip):
    """The optimizer clips after a step of 0.5."""
    layer = make_layer(cls, clip=clip)
    before, shape = array(layer.kernel), layer.kernel.shape
    keras.optimizers.SGD(1.0).apply([ops.full(shape, -0.5)], [layer.kernel])
    expected = np.clip(before + 0.5, -1, 1) if clip else before + 0.5
    np.testing.assert_allclose(array(layer.kernel), expected, rtol=1e-6)


@parametrize_class
def test_constructor_names_its_arguments(cls):
    """A call with names, a call by position and a saved config make the same layer."""
    parameters = inspect.signature(cls).parameters.values()
    assert all(parameter.kind is not parameter.VAR_POSITIONAL for parameter in parameters)
    names = ["units"] if cls is BinaryDense else ["filters", "kernel_size"]
    names = names[1:] if cls is BinaryDepthwiseConv2D else names
    by_name = cls(**dict.fromkeys(names, 2), clip=False, input_estimator=None, name="layer")
    by_position = cls(*[2] * len(names), clip=False, input_estimator=None, name="layer")
    assert by_name.get_config() == by_position.get_config()
    assert cls.from_config(by_name.get_config()).get_config() == by_name.get_config()


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
