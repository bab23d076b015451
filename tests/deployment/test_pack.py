"""Packed files compute the logits of the classifier."""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import layers
from packable_networks import NETWORKS, integer_inputs, logits, spread_statistics

from dann import DANN
from dann.deployment import pack
from dann.deployment.folding import find_thresholds
from dann.deployment.packing import build_program
from dann.deployment.runtime import PackedModel, load
from dann.layers import BinaryConv2D, BinaryDense, BinaryDepthwiseConv2D, BinarySign
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
    np.testing.assert_array_equal((sums >= thresholds) != flips, is_positive(sums))
    assert abs(thresholds[0]) <= largest


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.sign, self.norm = BinaryDense(4), layers.BatchNormalization()
        self.last = layers.Dense(3)

    def call(self, inputs, training=None):
        return self.last(self.norm(self.sign(inputs), training=training) + inputs)


class Doubled(keras.Model):
    def call(self, inputs, training=None):
        return 2 * super().call(inputs, training=training)


def networks_of_the_package(residual):
    if residual:
        model = DANN(binary_resnet_backbone((8, 8, 3), filters=(8, 16), blocks=1), num_classes=5)
    else:
        backbone = binary_lenet_backbone((28, 28, 1), filters=(8, 16))
        model = DANN(backbone, label_head=binary_label_head(backbone.output_shape[-1], 5))
    spread_statistics(model.classifier)
    return model


def full_precision():
    inputs = keras.Input((9, 8, 4))
    x = layers.Rescaling([0.5, 1, 2, 4], offset=-1)(inputs)
    x = layers.Conv2D(6, 3, activation="relu", groups=2, padding="same", strides=2)(x)
    x = layers.DepthwiseConv2D(2, depth_multiplier=2, activation="tanh")(x)
    x = layers.AveragePooling2D(2, padding="same")(x)
    x = layers.LeakyReLU(0.1)(BinarySign()(x))
    x = layers.Reshape((2, 2, 12))(x)
    x = layers.Add()([layers.GlobalAveragePooling2D()(x), layers.GlobalMaxPooling2D()(x)])
    x = layers.Dense(6, activation="sigmoid")(x)
    return keras.Model(inputs, layers.Softmax()(layers.Dense(3)(x)))


def nested_outputs():
    """One output is used twice, another is the input, and a layer without effect has a list."""
    inputs, outer = keras.Input((4,)), keras.Input((4,))
    first = layers.Dense(4)(inputs)
    nested = keras.Model(inputs, [first, layers.Dense(4)(first), inputs], name="nested")
    outputs = nested(layers.Rescaling(2.0)(outer))
    terms = [outputs[2], 2.0 * outputs[0], 3.0 * outputs[0], 4.0 * outputs[1]]
    return keras.Model(outer, layers.Add()(layers.Identity()(terms)))


def subclassed():
    model = Subclassed()
    model(np.ones((1, 4), "float32"))
    return model


def overridden_call():
    inputs = keras.Input((4,))
    return Doubled(inputs, BinaryDense(3)(inputs))


def dict_of_inputs():
    inputs, entries = keras.Input((4,)), [keras.Input((4,), name=name) for name in "ab"]
    two = keras.Model(entries, layers.Add()([2.0 * entries[0], entries[1]]))
    return keras.Model(inputs, two({"b": inputs, "a": layers.Dense(4)(inputs)}))


EXACT = [overridden_call]
ROUNDED = [
    *(lambda: networks_of_the_package(False), lambda: networks_of_the_package(True)),
    *(full_precision, nested_outputs, subclassed, dict_of_inputs),
]


@pytest.mark.parametrize("make", EXACT + ROUNDED)
def test_model_is_packed(make, tmp_path):
    model = make()
    pack(model, tmp_path / "model.dann")
    packed = load(tmp_path / "model.dann")
    inputs = integer_inputs(packed, 40)
    expected = logits(getattr(model, "classifier", model), inputs)
    rtol, atol = (0.0, 0.0) if make in EXACT else (1e-4, 1e-3)
    np.testing.assert_allclose(packed.predict(inputs), expected, rtol, atol)


def test_scaled_kernels_without_batch_normalization_keep_ties(tmp_path):
    """The sums of products are integers, so ties are exactly 0 in the model and in the file."""
    inputs = keras.Input((9, 9, 3))
    scaled = {"kernel_estimator": "magnitude_aware", "use_bias": False}
    x = BinaryConv2D(10, 3, padding="same", strides=2, **scaled)(inputs)
    x = BinaryDepthwiseConv2D(2, depth_multiplier=2, **scaled)(x)
    x = BinaryDense(30, **scaled)(layers.Flatten()(x))
    model = keras.Model(inputs, BinaryDense(5, **scaled)(x))
    rows = integer_inputs(model, 50)
    for layer in model.layers[1:3]:
        assert (logits(keras.Model(inputs, layer.output), rows) == 0).any()
    packed = PackedModel(build_program(model)).predict(rows)
    np.testing.assert_array_equal(packed, logits(model, rows))
