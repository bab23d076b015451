"""Packed classifiers give what the classifier gives."""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import layers
from packable_networks import NETWORKS, logits, normalized, spread_statistics, whole_inputs

from dann import DANN
from dann import layers as own
from dann.deployment import PackError, export, pack, to_c
from dann.deployment.folding import find_thresholds
from dann.deployment.packing import program_of
from dann.deployment.runtime import PackedModel, load
from dann.gradients.estimators import DoReFa
from dann.networks import binary_label_head, binary_lenet_backbone, binary_resnet_backbone


@pytest.mark.parametrize("name", NETWORKS)
def test_every_logit_is_that_of_the_classifier(name, tmp_path):
    model = spread_statistics(NETWORKS[name]())
    inputs = whole_inputs(model, 20)
    expected = logits(model, inputs)
    assert len(np.unique(expected, axis=0)) > 5
    assert pack(model, tmp_path / "model.dann") == (tmp_path / "model.dann").stat().st_size
    packed = load(tmp_path / "model.dann")
    np.testing.assert_array_equal(packed.predict(inputs), expected)
    np.testing.assert_array_equal(packed.predict(inputs[:3], batch_size=2), expected[:3])
    assert packed.predict(inputs[:0]).shape == (0, *expected.shape[1:])
    # Batch normalization before a sign is a threshold.
    for step in packed.steps:
        before = packed.steps[step.inputs[0]] if step.op == "sign" else packed.steps[0]
        assert before.op != "affine" or packed.steps[before.inputs[0]].kind != "int"


@settings(deadline=None, max_examples=60)
@given(
    largest=st.integers(1, 40),
    gamma=st.sampled_from([-3.0, -0.1, 0.0, -0.0, 1e-6, 0.7]),
    beta=st.sampled_from([-20.0, -0.7, -1e-7, -0.0, 0.0, 0.7, 20.0]),
    mean=st.integers(-50, 50),
)
def test_thresholds_decide_as_batch_norm_for_every_sum(largest, gamma, beta, mean):
    def positive(sums):
        scale, sums = np.float32(gamma), sums.astype("float32")
        return sums * scale + (np.float32(beta) - np.float32(mean) * scale) >= 0

    thresholds, flips = find_thresholds(positive, 1, largest)
    sums = np.arange(-largest, largest + 1)
    expected = positive(sums)
    np.testing.assert_array_equal((sums >= thresholds) != flips, expected)
    assert abs(thresholds[0]) <= largest


def check(model, path, count=6, rtol=0.0, atol=0.0):
    """Packs a model, and compares the logits of the file with the model's."""
    pack(model, path / "model.dann")
    packed = load(path / "model.dann")
    inputs = whole_inputs(packed, count)
    given = packed.predict(inputs)
    np.testing.assert_allclose(given, logits(model, inputs), rtol, atol)


@keras.saving.register_keras_serializable("tests")
def sign_of(x):
    return keras.ops.where(x >= 0, 1.0, -1.0)


@pytest.mark.parametrize("rank", [1, 3])
def test_other_ranks_of_convolution_and_quantizers_that_are_functions(rank, tmp_path):
    inputs = keras.Input((9, 6, 5, 3)[-rank - 1 :])
    if rank == 1:
        x = own.BinaryConv1D(8, 3, input_estimator=None, padding="causal", dilation_rate=2)(inputs)
        x = own.BinaryConv1D(8, 3, padding="causal", pad_values=1, use_bias=False)(normalized(x))
        x = layers.MaxPooling1D()(x)
    else:
        x = own.BinaryConv3D(8, 2, input_estimator=None)(inputs)
        x = own.BinaryConv3D(8, 3, padding="same", strides=2, groups=2)(normalized(x))
    last = own.BinaryDense(4, input_estimator=sign_of, kernel_estimator=sign_of)
    outputs = last(layers.Flatten()(normalized(x)))
    check(spread_statistics(keras.Model(inputs, outputs)), tmp_path)


@pytest.mark.parametrize("residual", [False, True])
def test_the_networks_of_the_package_are_packed(residual, tmp_path):
    if residual:
        model = DANN(binary_resnet_backbone((8, 8, 3), filters=(8, 16), blocks=1), num_classes=5)
    else:
        backbone = binary_lenet_backbone((28, 28, 1), filters=(8, 16))
        model = DANN(backbone, label_head=binary_label_head(backbone.output_shape[-1], 5))
    spread_statistics(model.classifier)
    check(model, tmp_path, 30, rtol=1e-4, atol=1e-3)


def test_layers_in_full_precision_and_their_activations(tmp_path):
    inputs = keras.Input((9, 8, 4))
    x = layers.Rescaling([0.5, 1, 2, 4], offset=-1)(inputs)
    x = layers.Conv2D(6, 3, activation="relu", groups=2, padding="same", strides=2)(x)
    x = layers.DepthwiseConv2D(2, depth_multiplier=2, activation="tanh")(x)
    x = layers.AveragePooling2D(2, padding="same")(x)
    x = layers.LeakyReLU(0.1)(own.BinarySign()(x))
    x = layers.Reshape((2, 2, 12))(x)
    x = layers.Add()([layers.GlobalAveragePooling2D()(x), layers.GlobalMaxPooling2D()(x)])
    x = layers.Dense(6, activation="sigmoid")(x)
    model = keras.Model(inputs, layers.Softmax()(layers.Dense(3)(x)))
    check(model, tmp_path, rtol=1e-5, atol=1e-6)


def test_scaled_kernels_need_no_batch_norm_for_the_same_signs(tmp_path):
    """Sums of products are whole, so that a tie is 0 here as there."""
    inputs = keras.Input((9, 9, 3))
    scaled = {"kernel_estimator": "magnitude_aware", "use_bias": False}
    x = own.BinaryConv2D(10, 3, padding="same", strides=2, **scaled)(inputs)
    x = own.BinaryDepthwiseConv2D(2, depth_multiplier=2, **scaled)(x)
    x = own.BinaryDense(30, **scaled)(layers.Flatten()(x))
    model = keras.Model(inputs, own.BinaryDense(5, **scaled)(x))
    for layer in model.layers[1:3]:
        assert (logits(keras.Model(inputs, layer.output), whole_inputs(model, 50)) == 0).any()
    check(model, tmp_path, 50)


def test_slopes_below_0_turn_the_sign_around_once(tmp_path):
    inputs = keras.Input((9,))
    shifted = own.RPReLU()
    x = shifted(normalized(own.BinaryDense(12, use_bias=False)(inputs)))
    model = spread_statistics(keras.Model(inputs, own.BinaryDense(5, use_bias=False)(x)))
    shifted.slope.assign(np.linspace(-2, 1, 12))
    check(model, tmp_path, 99)


def test_softmax_of_great_numbers_and_signs_of_nan(tmp_path):
    softmax = keras.Sequential([keras.Input((3,)), layers.Softmax()])
    signs = keras.Sequential([keras.Input((3,)), own.BinaryDense(2, use_bias=False)])
    for model, inputs, same in (
        (softmax, [[1e4, 1e4, -1e4]], [[0.0, 0.0, -99.0]]),
        (signs, [[np.nan, 2.0, np.nan]], [[-1.0, 2.0, -1.0]]),
    ):
        given = PackedModel(program_of(model)).predict(inputs)
        np.testing.assert_allclose(given, logits(model, np.array(same)), atol=1e-6)


def test_sums_may_be_written_as_sums(tmp_path):
    inputs = keras.Input((6, 6, 3))
    x = layers.Conv2D(4, 3, padding="same")(inputs)
    x = normalized(own.BinaryConv2D(4, 3, padding="same", use_bias=False)(x)) + x
    x = keras.ops.add(normalized(own.BinaryConv2D(4, 3, padding="same", use_bias=False)(x)), x)
    model = spread_statistics(keras.Model(inputs, own.BinaryDense(3)(layers.Flatten()(x + x))))
    kernel = model.layers[1].kernel
    kernel.assign(np.random.default_rng(0).integers(-3, 4, kernel.shape))
    check(model, tmp_path)
    assert [step.op for step in program_of(model)].count("add") == 3


def test_means_of_channels_round_as_in_the_model(tmp_path):
    inputs = keras.Input((5, 4, 3))
    scale = keras.ops.mean(keras.ops.abs(inputs), axis=-1, keepdims=True)
    # JAX multiplies by the reciprocal of their number.
    rtol = 0.0 if keras.backend.backend() == "tensorflow" else 2e-7
    check(keras.Model(inputs, inputs * scale), tmp_path, rtol=rtol)


@pytest.mark.parametrize("taken", [[0], [1], [2], [2, 0, 0, 1]])
def test_each_output_of_a_nested_model_is_its_own(taken, tmp_path):
    inputs, outer = keras.Input((4,)), keras.Input((4,))
    first = layers.Dense(4)(inputs)
    nested = keras.Model(inputs, [first, layers.Dense(4)(first), inputs], name="nested")
    outputs = nested(layers.Rescaling(2.0)(outer))
    x = layers.Reshape((1, 4))(outputs[taken[0]])
    for weight, place in enumerate(taken[1:], start=2):
        scaled = layers.Rescaling(float(weight))(outputs[place])
        x = layers.Add()([x, layers.Reshape((1, 4))(scaled)])
    check(keras.Model(outer, x), tmp_path, rtol=1e-4, atol=1e-4)


class Subclassed(keras.Model):
    def __init__(self, function=keras.ops.add, **kwargs):
        super().__init__(**kwargs)
        self.sign, self.norm = own.BinaryDense(4, use_bias=False), layers.BatchNormalization()
        self.last, self.function = layers.Dense(3), function

    def call(self, inputs, training=None):
        return self.last(self.function(self.norm(self.sign(inputs), training=training), inputs))


def test_a_subclassed_model_is_packed_layer_by_layer(tmp_path):
    model = Subclassed()
    model(np.ones((1, 4), "float32"))
    check(model, tmp_path, rtol=1e-5, atol=1e-5)
    inputs = keras.Input((4,))
    check(keras.Model(inputs, layers.Dense(2)(model(inputs))), tmp_path, rtol=1e-5, atol=1e-5)


class Doubled(keras.Model):
    def call(self, inputs, training=None):
        return 2 * super().call(inputs, training=training)


def test_models_are_packed_as_they_compute(tmp_path):
    flat, entries = keras.Input((4,)), [keras.Input((4,), name=name) for name in "ab"]
    check(Doubled(flat, own.BinaryDense(3)(flat)), tmp_path)
    two = keras.Model(entries, layers.Add()([2.0 * entries[0], entries[1]]))
    taking_a_dict = keras.Model(flat, two({"b": flat, "a": layers.Dense(4)(flat)}))
    check(taking_a_dict, tmp_path, rtol=1e-4, atol=1e-4)


class DoubledDense(layers.Dense):
    def call(self, inputs):
        return 2 * super().call(inputs)


def refused():
    """Models that cannot be packed, and words of the error that name why."""
    shapes = (4,), (4,), (6, 6, 2), (2, 6, 6), (None, 2)
    flat, other, images, first, series = map(keras.Input, shapes)
    quantized = layers.Dense(2, name="one")
    outputs = quantized(flat)
    quantized.quantize("int8")
    inner = keras.Sequential([keras.Input((4,)), layers.BatchNormalization()], name="one")
    kernel_of_3_bits = DoReFa(3, "kernel")
    channels = own.BinaryConv2D(2, 3, data_format="channels_first", name="one")
    yield "'one'", images, own.BinaryConv2DTranspose(2, 3, name="one")(images)
    yield "'one' must be a `keras.Model`.*: DoubledDense", flat, DoubledDense(2, name="one")(flat)
    yield "'one'.*depthwise", images, layers.SeparableConv2D(2, 3, name="one")(images)
    yield "2, 3 or 4 rising", flat, own.BinaryDense(2, input_estimator=DoReFa(3), name="one")(flat)
    yield "4 even", flat, own.BinaryDense(9, kernel_estimator=kernel_of_3_bits, name="one")(flat)
    padded = {"padding": "same", "pad_values": -1, "input_estimator": DoReFa(1), "name": "one"}
    yield "border of one of", images, own.BinaryConv2D(2, 3, **padded)(images)
    yield "last axis", images, keras.ops.mean(images, axis=(1, 2))
    yield "in float32.*int8", flat, outputs
    yield "'one/gelu'.*Received: Gelu", flat, layers.Dense(2, activation="gelu", name="one")(flat)
    yield "channels_last", first, channels(first)
    yield "last axis", images, layers.BatchNormalization(axis=1, name="one")(images)
    yield "'training': True", flat, inner(flat, training=True)
    yield r"'one'.*shared_axes=\[1, 2\]", images, layers.PReLU(name="one")(images)
    yield "`threshold`", flat, layers.ReLU(threshold=0.5, name="one")(flat)
    yield "one rank", images, images + layers.Reshape((1, 2))(layers.GlobalMaxPooling2D()(images))
    yield "one size", series, layers.Dense(2)(series)
    yield "2 inputs", [flat, other], layers.Add()([flat, other])
    yield "2 outputs", flat, [layers.Dense(2)(flat), flat]


def of_numbers(x, y):
    return x + keras.ops.convert_to_tensor(keras.ops.convert_to_numpy(y))


def test_what_cannot_be_packed_is_named(tmp_path):
    cases = [(message, keras.Model(inputs, outputs)) for message, inputs, outputs in refused()]
    numbers = Subclassed(of_numbers)
    numbers(np.ones((1, 4), "float32"))
    # JAX does not even build it.
    cases += [
        ("Subclassed.call must call layers.*`return self.*`; write it|call it on a batch", numbers)
    ]
    cases += [("call it on a batch", keras.Sequential([layers.Dense(2)]))]
    for message, model in cases:
        with pytest.raises(PackError, match=message):
            pack(model, tmp_path / "model.dann")
    assert list(tmp_path.iterdir()) == []


def test_other_arguments_are_refused(tmp_path):
    model, path = keras.Sequential([keras.Input((4,)), layers.Dense(2)]), tmp_path / "model.dann"
    pack(model, path)
    for function, arguments, error in (
        (pack, (own.BinaryDense(2), path), PackError),
        (export, (model, path, "gguf", np.zeros((2, 4))), ValueError),
        *((to_c, (model, path, name), ValueError) for name in ("", "2x", "a-b", "é", "a b")),
        (load(path).predict, (np.zeros((2, 3)),), ValueError),
    ):
        with pytest.raises(error):
            function(*arguments)
