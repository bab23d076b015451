"""Packed files compute the logits of the classifier."""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import layers
from packable_networks import NETWORKS, integer_inputs, logits, normalize, spread_statistics

from dann import DANN
from dann.deployment import pack
from dann.deployment.folding import find_thresholds
from dann.deployment.packing import build_program
from dann.deployment.runtime import PackedModel, load
from dann.gradients.estimators import get_estimator
from dann.layers import (
    BinaryConv1D,
    BinaryConv2D,
    BinaryConv3D,
    BinaryDense,
    BinaryDepthwiseConv2D,
    BinarySign,
    RPReLU,
)
from dann.networks import binary_label_head, binary_lenet_backbone, binary_resnet_backbone


@pytest.mark.parametrize("name", NETWORKS)
def test_packed_logits_equal_classifier_logits(name, tmp_path):
    model = spread_statistics(NETWORKS[name]())
    inputs = integer_inputs(model, 20)
    expected = logits(model, inputs)
    assert len(np.unique(expected, axis=0)) > 5
    assert pack(model, tmp_path / "model.dann") == (tmp_path / "model.dann").stat().st_size
    packed = load(tmp_path / "model.dann")
    np.testing.assert_array_equal(packed.predict(inputs), expected)
    np.testing.assert_array_equal(packed.predict(inputs[:3], batch_size=2), expected[:3])
    assert packed.predict(inputs[:0]).shape == (0, *expected.shape[1:])
    # Batch normalization between integer sums and a sign was folded into a threshold.
    for step in packed.steps:
        source = packed.steps[step.inputs[0]] if step.op == "sign" else packed.steps[0]
        assert source.op != "affine" or packed.steps[source.inputs[0]].kind != "int"


@settings(deadline=None, max_examples=60)
@given(
    largest=st.integers(1, 40),
    gamma=st.sampled_from([-3.0, -0.1, 0.0, -0.0, 1e-6, 0.7]),
    beta=st.sampled_from([-20.0, -0.7, -1e-7, -0.0, 0.0, 0.7, 20.0]),
    mean=st.integers(-50, 50),
)
def test_thresholds_match_batch_normalization_for_every_sum(largest, gamma, beta, mean):
    def is_positive(sums):
        scale, sums = np.float32(gamma), sums.astype("float32")
        return sums * scale + (np.float32(beta) - np.float32(mean) * scale) >= 0

    thresholds, flips = find_thresholds(is_positive, 1, largest)
    sums = np.arange(-largest, largest + 1)
    expected = is_positive(sums)
    np.testing.assert_array_equal((sums >= thresholds) != flips, expected)
    assert abs(thresholds[0]) <= largest


def check(model, path, count=6, rtol=0.0, atol=0.0):
    """Packs a model and compares the logits of the file with those of the model."""
    pack(model, path / "model.dann")
    packed = load(path / "model.dann")
    inputs = integer_inputs(packed, count)
    np.testing.assert_allclose(packed.predict(inputs), logits(model, inputs), rtol, atol)


@keras.saving.register_keras_serializable("tests")
def plain_sign(x):
    return keras.ops.where(x >= 0, 1.0, -1.0)


@pytest.mark.parametrize("rank", [1, 3])
def test_convolutions_of_rank_1_and_3_are_packed(rank, tmp_path):
    inputs = keras.Input((9, 6, 5, 3)[-rank - 1 :])
    if rank == 1:
        x = BinaryConv1D(8, 3, input_estimator=None, padding="causal", dilation_rate=2)(inputs)
        x = BinaryConv1D(8, 3, padding="causal", pad_values=1, use_bias=False)(normalize(x))
        x = layers.MaxPooling1D()(x)
    else:
        x = BinaryConv3D(8, 2, input_estimator=None)(inputs)
        x = BinaryConv3D(8, 3, padding="same", strides=2, groups=2)(normalize(x))
    last = BinaryDense(4, input_estimator=plain_sign, kernel_estimator=plain_sign)
    outputs = last(layers.Flatten()(normalize(x)))
    check(spread_statistics(keras.Model(inputs, outputs)), tmp_path)


@pytest.mark.parametrize("residual", [False, True])
def test_networks_of_the_package_are_packed(residual, tmp_path):
    if residual:
        model = DANN(binary_resnet_backbone((8, 8, 3), filters=(8, 16), blocks=1), num_classes=5)
    else:
        backbone = binary_lenet_backbone((28, 28, 1), filters=(8, 16))
        model = DANN(backbone, label_head=binary_label_head(backbone.output_shape[-1], 5))
    spread_statistics(model.classifier)
    check(model, tmp_path, 30, rtol=1e-4, atol=1e-3)


def test_full_precision_layers_and_activations_are_packed(tmp_path):
    inputs = keras.Input((9, 8, 4))
    x = layers.Rescaling([0.5, 1, 2, 4], offset=-1)(inputs)
    x = layers.Conv2D(6, 3, activation="relu", groups=2, padding="same", strides=2)(x)
    x = layers.DepthwiseConv2D(2, depth_multiplier=2, activation="tanh")(x)
    x = layers.AveragePooling2D(2, padding="same")(x)
    x = layers.LeakyReLU(0.1)(BinarySign()(x))
    x = layers.Reshape((2, 2, 12))(x)
    x = layers.Add()([layers.GlobalAveragePooling2D()(x), layers.GlobalMaxPooling2D()(x)])
    x = layers.Dense(6, activation="sigmoid")(x)
    model = keras.Model(inputs, layers.Softmax()(layers.Dense(3)(x)))
    check(model, tmp_path, rtol=1e-5, atol=1e-6)


def test_scaled_kernels_without_batch_normalization_keep_ties(tmp_path):
    """The sums of products are integers, so ties are exactly 0 in the model and in the file."""
    inputs = keras.Input((9, 9, 3))
    scaled = {"kernel_estimator": "magnitude_aware", "use_bias": False}
    x = BinaryConv2D(10, 3, padding="same", strides=2, **scaled)(inputs)
    x = BinaryDepthwiseConv2D(2, depth_multiplier=2, **scaled)(x)
    x = BinaryDense(30, **scaled)(layers.Flatten()(x))
    model = keras.Model(inputs, BinaryDense(5, **scaled)(x))
    for layer in model.layers[1:3]:
        assert (logits(keras.Model(inputs, layer.output), integer_inputs(model, 50)) == 0).any()
    check(model, tmp_path, 50)


def test_negative_slopes_flip_signs_once(tmp_path):
    inputs = keras.Input((9,))
    activation = RPReLU()
    x = activation(normalize(BinaryDense(12, use_bias=False)(inputs)))
    model = spread_statistics(keras.Model(inputs, BinaryDense(5, use_bias=False)(x)))
    activation.slope.assign(np.linspace(-2, 1, 12))
    check(model, tmp_path, 99)


def test_estimator_as_activation_is_packed(tmp_path):
    inputs = keras.Input((9,))
    x = layers.Activation(get_estimator("swish_sign"))(inputs)
    x = BinaryDense(20, input_estimator=None, activation=get_estimator("ternary"))(x)
    check(keras.Model(inputs, BinaryDense(3, input_estimator=None)(x)), tmp_path, 50)


def test_lists_pass_layers_that_act_only_in_training(tmp_path):
    inputs = keras.Input((9,))
    check(keras.Model(inputs, layers.Add()(layers.Identity()([inputs, 2.0 * inputs]))), tmp_path)


def test_softmax_of_large_numbers_and_signs_of_nan():
    softmax = keras.Sequential([keras.Input((3,)), layers.Softmax()])
    signs = keras.Sequential([keras.Input((3,)), BinaryDense(2, use_bias=False)])
    for model, inputs, equivalent in (
        (softmax, [[1e4, 1e4, -1e4]], [[0.0, 0.0, -99.0]]),
        (signs, [[np.nan, 2.0, np.nan]], [[-1.0, 2.0, -1.0]]),
    ):
        packed = PackedModel(build_program(model)).predict(inputs)
        np.testing.assert_allclose(packed, logits(model, np.array(equivalent)), atol=1e-6)


def test_channel_means_round_as_in_the_model(tmp_path):
    inputs = keras.Input((5, 4, 3))
    scale = keras.ops.mean(keras.ops.abs(inputs), axis=-1, keepdims=True)
    # JAX multiplies by the reciprocal of the number of channels.
    rtol = 0.0 if keras.backend.backend() == "tensorflow" else 2e-7
    check(keras.Model(inputs, inputs * scale), tmp_path, rtol=rtol)


@pytest.mark.parametrize("indices", [[0], [1], [2], [2, 0, 0, 1]])
def test_outputs_of_a_nested_model_are_distinct(indices, tmp_path):
    inputs, outer = keras.Input((4,)), keras.Input((4,))
    first = layers.Dense(4)(inputs)
    nested = keras.Model(inputs, [first, layers.Dense(4)(first), inputs], name="nested")
    outputs = nested(layers.Rescaling(2.0)(outer))
    x = layers.Reshape((1, 4))(outputs[indices[0]])
    for weight, index in enumerate(indices[1:], start=2):
        scaled = layers.Rescaling(float(weight))(outputs[index])
        x = layers.Add()([x, layers.Reshape((1, 4))(scaled)])
    check(keras.Model(outer, x), tmp_path, rtol=1e-4, atol=1e-4)


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.sign, self.norm = BinaryDense(4, use_bias=False), layers.BatchNormalization()
        self.last = layers.Dense(3)

    def call(self, inputs, training=None):
        return self.last(self.norm(self.sign(inputs), training=training) + inputs)


def test_subclassed_model_is_packed_layer_by_layer(tmp_path):
    model = Subclassed()
    model(np.ones((1, 4), "float32"))
    check(model, tmp_path, rtol=1e-5, atol=1e-5)
    inputs = keras.Input((4,))
    check(keras.Model(inputs, layers.Dense(2)(model(inputs))), tmp_path, rtol=1e-5, atol=1e-5)


class Doubled(keras.Model):
    def call(self, inputs, training=None):
        return 2 * super().call(inputs, training=training)


def test_overridden_call_and_dict_inputs_are_packed(tmp_path):
    flat, entries = keras.Input((4,)), [keras.Input((4,), name=name) for name in "ab"]
    check(Doubled(flat, BinaryDense(3)(flat)), tmp_path)
    two = keras.Model(entries, layers.Add()([2.0 * entries[0], entries[1]]))
    with_dict_inputs = keras.Model(flat, two({"b": flat, "a": layers.Dense(4)(flat)}))
    check(with_dict_inputs, tmp_path, rtol=1e-4, atol=1e-4)
