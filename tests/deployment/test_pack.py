"""Packed files compute the logits of the classifier."""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import layers, ops
from packable_networks import eager, integer_inputs, logits, spread_statistics

import dann
from dann.deployment import PackError, c_file, export, pack, to_c
from dann.deployment.folding import find_thresholds
from dann.deployment.packing import build_program
from dann.deployment.runtime import PackedModel, load
from dann.gradients.estimators import DoReFa
from dann.layers import BinaryConv2D, BinaryDense, BinaryDepthwiseConv2D, BinarySign
from dann.networks import binary_label_head, binary_lenet_backbone, binary_resnet_backbone


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


def make_binary_classifier(residual):
    if residual:
        model = dann.DANN(binary_resnet_backbone((8, 8, 3), filters=(8, 16), blocks=1), 5)
    else:
        backbone = binary_lenet_backbone((28, 28, 1), filters=(8, 16))
        model = dann.DANN(backbone, label_head=binary_label_head(backbone.output_shape[-1], 5))
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


def call_with_dict():
    inputs, entries = keras.Input((4,)), [keras.Input((4,), name=name) for name in "ab"]
    two = keras.Model(entries, layers.Add()([2.0 * entries[0], entries[1]]))
    return keras.Model(inputs, two({"b": inputs, "a": layers.Dense(4)(inputs)}))


MODELS = [
    *(lambda: make_binary_classifier(False), lambda: make_binary_classifier(True)),
    *(full_precision, nested_outputs, subclassed, call_with_dict, overridden_call),
]


@pytest.mark.parametrize("make", MODELS)
def test_model_is_packed(make, tmp_path):
    model = make()
    pack(model, tmp_path / "model.dann")
    packed = load(tmp_path / "model.dann")
    inputs = integer_inputs(packed, 40)
    expected = logits(getattr(model, "classifier", model), inputs)
    rtol, atol = (0.0, 0.0) if make is overridden_call else (1e-4, 1e-3)
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


class DoubledDense(layers.Dense):
    def call(self, inputs):
        return 2 * super().call(inputs)


def quantized(inputs):
    layer = layers.Dense(2, name="one")
    outputs = layer(inputs)
    layer.quantize("int8")
    return outputs


def in_training(inputs):
    inner = keras.Sequential([keras.Input((4,)), layers.BatchNormalization()], name="one")
    return inner(inputs, training=True)


def with_integers():
    return keras.Sequential([keras.Input((4,), dtype="uint8"), layers.Dense(2)])


def with_two_inputs():
    inputs = keras.Input((4,)), keras.Input((4,))
    return keras.Model(inputs, layers.Add()(inputs))


FLAT, IMAGE = (4,), (6, 6, 2)
LEVELS = {"padding": "same", "pad_values": -1, "input_estimator": DoReFa(1)}
FIRST_AXIS_CONVOLUTION = BinaryConv2D(2, 3, data_format="channels_first")
# The shape of the input and a function of it, or None and a function; and words of the error.
UNPACKABLE = {
    "transposed": (IMAGE, dann.layers.BinaryConv2DTranspose(2, 3, name="one"), "'one'.*deployment"),
    "subclass": (FLAT, DoubledDense(2, name="one"), "'one' to be a layer.*Received: DoubledDense"),
    "8 input levels": (FLAT, BinaryDense(2, input_estimator=DoReFa(3)), "2, 3 or 4 rising"),
    "8 kernel levels": (FLAT, BinaryDense(9, kernel_estimator=DoReFa(3, "kernel")), "4 even"),
    "border": (IMAGE, BinaryConv2D(2, 3, **LEVELS), "pad with one of the levels"),
    "mean image": (IMAGE, lambda x: x - np.ones(IMAGE), "last axis"),
    "quantized": (FLAT, quantized, "in float32.*int8"),
    "celu": (FLAT, layers.Dense(2, activation="celu", name="one"), "'one/celu'.*Received: Celu"),
    "sparsemax": (FLAT, layers.Activation("sparsemax"), "/sparsemax'.*Received: Sparsemax"),
    "convolution by function": (IMAGE, lambda x: ops.conv(x, np.ones((1, 1, 2, 2))), "Conv"),
    "channels first": ((2, 6, 6), FIRST_AXIS_CONVOLUTION, "channels_last"),
    "divisor": (FLAT, lambda x: x / layers.Dense(4)(x), "divide by a constant"),
    "first axis": (IMAGE, layers.BatchNormalization(axis=1), "last axis"),
    "training": (FLAT, in_training, "'training': True"),
    "slopes per pixel": (IMAGE, layers.PReLU(name="one"), "'one'.*set `shared_axes`"),
    "bilinear": (IMAGE, layers.UpSampling2D(2, interpolation="bilinear"), "nearest"),
    "unknown size": ((None, 2), layers.Dense(2), "fixed size.*`keras.Input`"),
    "two inputs": (None, with_two_inputs, "one input.*inputs of float32, float32"),
    "integers": (None, with_integers, "in float32.*inputs of uint8"),
    # JAX does not even build this model.
    "eager": (None, eager, "EagerDense.call to call only.*`return self.*`|Call it on a batch"),
}


@pytest.mark.parametrize(("shape", "function", "words"), UNPACKABLE.values(), ids=UNPACKABLE)
def test_unpackable_model_is_named(shape, function, words, tmp_path):
    inputs = None if shape is None else keras.Input(shape)
    model = function() if shape is None else keras.Model(inputs, function(inputs))
    with pytest.raises(PackError, match=words):
        pack(model, tmp_path / "model.dann")
    assert list(tmp_path.iterdir()) == []


MODEL = keras.Sequential([keras.Input(FLAT), layers.Dense(2)])
OTHER_SHAPE = np.zeros((2, 3))
ARGUMENTS = {
    "path for a model": (lambda path: to_c("file.dann", path), "Received: 'file.dann'.*load_model"),
    "name of a number": (lambda path: to_c(MODEL, path, name=3), "`name` to be text. Received: 3"),
    "format": (lambda path: export(MODEL, path, "gguf", OTHER_SHAPE), "'packed', 'c'.*gguf"),
    **{
        f"name {name!r}": (
            lambda path, name=name: to_c(MODEL, path, name),
            f"`name` to be a letter.*Received: {name!r}",
        )
        for name in ("", "2x", "a-b", "é", "a b")
    },
}


@pytest.mark.parametrize(("call", "words"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments_are_refused(call, words, tmp_path):
    with pytest.raises((TypeError, ValueError), match=words):
        call(tmp_path / "file")


def test_inputs_of_another_shape_are_refused(tmp_path):
    pack(MODEL, tmp_path / "model.dann")
    with pytest.raises(ValueError, match=r"inputs \(n, \*\(4,\)\).*\(2, 3\)"):
        c_file.load(tmp_path / "model.dann").predict(OTHER_SHAPE)
