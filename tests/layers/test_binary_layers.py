"""Layers with a binary kernel, against plain loops in NumPy and the Keras layers of their names."""

import keras
import numpy as np
import pytest
from keras import ops
from numpy_convolution import (
    convolution,
    depthwise_convolution,
    gradients_of_bilinear,
    sign,
    transposed_convolution,
)
from support.arrays import assert_all_equal

from dann import layers
from dann.autodiff import gradients
from dann.gradients import binary_sign
from dann.gradients.estimators import EDE, DoReFa, MagnitudeAware, Ternary
from dann.layers import BinaryConv1D, BinaryConv2D, BinaryConv3D, BinaryDense, BinarySign

BinaryDepthwiseConv2D = layers.BinaryDepthwiseConv2D
TRANSPOSED = [getattr(layers, f"BinaryConv{rank}DTranspose") for rank in (1, 2, 3)]
BinaryConv1DTranspose, BinaryConv2DTranspose, BinaryConv3DTranspose = TRANSPOSED
LAYERS = {  # the arguments, and the shape of the inputs
    BinaryDense: ((3,), (2, 3, 5)),
    BinaryConv1D: ((4, 3), (2, 6, 2)),
    BinaryConv2D: ((4, 3), (2, 5, 6, 2)),
    BinaryConv3D: ((4, 2), (2, 3, 4, 3, 2)),
    BinaryDepthwiseConv2D: ((3,), (2, 5, 6, 2)),
    BinaryConv1DTranspose: ((4, 3), (2, 4, 2)),
    BinaryConv2DTranspose: ((4, 3), (2, 3, 4, 2)),
    BinaryConv3DTranspose: ((2, 2), (2, 2, 3, 2, 2)),
}


def name_of(value):
    return getattr(value, "__name__", str(value))


each_class = pytest.mark.parametrize("cls", LAYERS, ids=name_of)


def inputs_for(cls):
    """Normal numbers with zeros and both edges of the clip among them."""
    inputs = np.random.default_rng(1).normal(size=LAYERS[cls][1]).astype("float32")
    inputs.reshape(-1)[:5] = [0.0, -0.0, 1.0, -1.0, 1.5]
    return inputs


def array(tensor):
    return ops.convert_to_numpy(tensor)


def built(cls, **arguments):
    """A layer with latent weights in and beyond [-1, 1], 0 and both edges among them."""
    layer = cls(*LAYERS[cls][0], **arguments)
    layer.build(LAYERS[cls][1])
    weights = np.random.default_rng(2).normal(size=layer.kernel.shape)
    weights.reshape(-1)[:4] = [0.0, 1.0, -1.0, 1.25]
    layer.kernel.assign(weights)
    return layer


def by_numpy(layer, inputs, kernel, value=0.0):
    """The layer's linear part of real numbers, padded with `value`, from Keras' attributes."""
    if isinstance(layer, BinaryDense):
        return inputs @ kernel
    if type(layer) in TRANSPOSED:
        return transposed_convolution(inputs, kernel, layer.strides[0])
    geometry = {
        "strides": layer.strides[0],
        "dilations": layer.dilation_rate[0],
        "padding": layer.padding,
        "value": value,
    }
    if isinstance(layer, BinaryDepthwiseConv2D):
        return depthwise_convolution(inputs, kernel, **geometry)
    return convolution(inputs, kernel, groups=layer.groups, **geometry)


GEOMETRIES = [
    (BinaryDense, {}),
    (BinaryConv1D, {}),
    (BinaryConv1D, {"padding": "causal", "pad_values": 1}),
    (BinaryConv1D, {"padding": "causal", "dilation_rate": 2}),
    (BinaryConv1D, {"padding": "causal", "strides": 2, "pad_values": -1}),
    (BinaryConv2D, {}),
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
    (BinaryConv3DTranspose, {}),
    (BinaryConv3DTranspose, {"strides": 2}),
    (BinaryConv2DTranspose, {}),
    (BinaryConv2DTranspose, {"strides": 2}),
]


@pytest.mark.parametrize(
    "policy", ["float32", pytest.param("mixed_float16", marks=pytest.mark.tensorflow)]
)
@pytest.mark.parametrize(("cls", "arguments"), GEOMETRIES, ids=name_of)
def test_values_are_those_of_a_convolution_of_signs(cls, arguments, policy):
    inputs, layer = inputs_for(cls), built(cls, **arguments, dtype=policy)
    layer.bias.assign(np.arange(layer.bias.shape[0]) - 1.5)
    kernel, value = sign(array(layer.kernel)), arguments.get("pad_values", 0)
    expected = by_numpy(layer, sign(inputs), kernel, value) + array(layer.bias)
    outputs = layer(inputs)
    np.testing.assert_array_equal(array(outputs), expected)
    assert tuple(outputs.shape) == tuple(layer.compute_output_shape(inputs.shape))


def check_gradients(layer, inputs, scale, value, tolerance):
    """To the inputs and the latent kernel, of which the layer takes the scaled sign."""
    latent = array(layer.kernel)
    kernel = scale * sign(latent)
    upstream = np.random.default_rng(3).integers(-3, 4, layer(inputs).shape).astype("float32")

    def outputs_of(inputs, kernel):
        return layer.stateless_call([kernel], [], inputs)[0]

    def linear(inputs, kernel):
        return by_numpy(layer, inputs, kernel, value)

    seen = gradients(outputs_of, [inputs, latent], [upstream])
    of_inputs, of_kernel = gradients_of_bilinear(linear, sign(inputs), kernel, upstream)
    of_latent = scale * of_kernel * (np.abs(latent) <= 1)
    np.testing.assert_allclose(array(seen[1]), of_latent, tolerance, tolerance)
    clipped = of_inputs * (np.abs(inputs) <= 1)
    np.testing.assert_allclose(array(seen[0]), clipped, tolerance, tolerance)


@pytest.mark.parametrize("scaled", [pytest.param(False, marks=pytest.mark.tensorflow), True])
@pytest.mark.parametrize(
    ("cls", "way"),
    [*((cls, "override") for cls in LAYERS), (BinaryConv1D, "stop_gradient")],
    ids=name_of,
)
def test_gradients_are_those_of_a_convolution_of_signs_behind_the_clip(cls, way, scaled):
    """Scaled as the kernel is; the scale itself has none."""
    if scaled:
        layer = built(cls, way=way, use_bias=False, kernel_estimator="magnitude_aware")
        check_gradients(layer, inputs_for(cls), array(layer.kernel_scale()), 0, 1e-4)
        return
    padded = cls not in (BinaryDense, *TRANSPOSED)
    arguments = {"padding": "same", "pad_values": 1} if padded else {}
    layer = built(cls, way=way, use_bias=False, **arguments)
    check_gradients(layer, inputs_for(cls), 1.0, arguments.get("pad_values", 0), tolerance=0)


def test_a_scale_belongs_to_the_output_channels_whatever_axis_is_given():
    for estimator in ("magnitude_aware", MagnitudeAware(0)):
        layer = built(BinaryConv2DTranspose, kernel_estimator=estimator)
        assert layer.kernel_scale().shape == (1, 1, 4, 1)


@pytest.mark.parametrize("estimator", ["htanh", None])
def test_inputs_may_be_whole_numbers_and_stay_as_they_are_without_an_estimator(estimator):
    numbers = np.arange(-4, 4, dtype="int32").reshape(2, 4)
    layer = BinaryDense(3, input_estimator=estimator, use_bias=False)
    for inputs in (numbers, numbers.astype("float32")):
        outputs = array(layer(inputs))
        taken = sign(numbers) if estimator else numbers
        np.testing.assert_allclose(outputs, taken @ array(layer.binary_kernel()), rtol=1e-6)


@each_class
def test_it_is_the_keras_layer_of_its_name_with_quantized_inputs_and_kernel(cls):
    inputs, layer = inputs_for(cls), built(cls, activation="relu")
    twin = getattr(keras.layers, cls.__name__.removeprefix("Binary"))
    twin = twin(*LAYERS[cls][0], activation="relu")
    twin.build(inputs.shape)
    twin.set_weights([sign(array(layer.kernel)), layer.bias])
    np.testing.assert_array_equal(array(layer(inputs)), array(twin(sign(inputs))))
    assert set(twin.get_config()) <= set(layer.get_config())
    assert layer.kernel.binary is True
    assert not getattr(layer.bias, "binary", False)


@pytest.mark.parametrize("cls", [BinaryConv2D, BinaryDepthwiseConv2D])
def test_channels_may_come_first_where_the_device_allows(cls):
    """Compiled by XLA: TensorFlow's own CPU kernels want them last."""
    settings = {"padding": "same", "pad_values": 1, "kernel_estimator": "magnitude_aware"}
    last = built(cls, **settings)
    first = cls(*LAYERS[cls][0], **settings, data_format="channels_first")
    model = keras.Sequential([keras.Input((2, 5, 6)), first])
    last.bias.assign(np.arange(last.bias.shape[0]))
    model.set_weights(last.get_weights())
    model.compile(jit_compile=True)
    outputs = model.predict(inputs_for(cls).transpose(0, 3, 1, 2), verbose=0)
    expected = array(last(inputs_for(cls)))
    np.testing.assert_allclose(outputs.transpose(0, 2, 3, 1), expected, 1e-5, 1e-5)


@each_class
def test_magnitudes_belong_to_output_channels(cls):
    inputs = inputs_for(cls)
    layer = built(cls, kernel_estimator="magnitude_aware", use_bias=False)
    code, scale = array(layer.binary_kernel()), array(layer.kernel_scale())
    assert set(np.unique(code)) == {-1.0, 1.0}
    assert layer.kernel.binary is True
    pooled = tuple(np.flatnonzero(np.array(scale.shape) == 1))
    expected = np.abs(array(layer.kernel)).mean(axis=pooled, keepdims=True)
    np.testing.assert_allclose(scale, expected, rtol=1e-6)
    outputs = array(layer(inputs))
    assert scale.size == outputs.shape[-1]
    unscaled = by_numpy(layer, sign(inputs), code)
    np.testing.assert_allclose(outputs, unscaled * scale.reshape(-1), rtol=1e-5, atol=1e-5)


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


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("cls", [BinaryDense, BinaryDepthwiseConv2D])
def test_latent_weights_are_clipped_by_default(cls, clip):
    """By the optimizer, after a step of 0.5."""
    layer = built(cls, clip=clip)
    before, shape = array(layer.kernel), layer.kernel.shape
    keras.optimizers.SGD(1.0).apply([ops.full(shape, -0.5)], [layer.kernel])
    expected = np.clip(before + 0.5, -1, 1) if clip else before + 0.5
    np.testing.assert_allclose(array(layer.kernel), expected, rtol=1e-6)


def test_a_constraint_of_the_users_takes_the_place_of_the_clip():
    layer = BinaryDense(2, kernel_constraint="non_neg")
    assert isinstance(layer.kernel_constraint, keras.constraints.NonNeg)
    clipped = array(layers.WeightClip(0.5)(np.float32([-2, 0.3, 2])))
    np.testing.assert_allclose(clipped, [-0.5, 0.3, 0.5])


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
