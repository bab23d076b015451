"""Models, arguments and programs that are refused, with the words that the user needs."""

import keras
import numpy as np
import pytest
from keras import layers, ops
from packable_networks import eager

from dann.deployment import PackError, export, load, pack, to_c
from dann.gradients.estimators import DoReFa
from dann.layers import BinaryConv2D, BinaryConv2DTranspose, BinaryDense


class DoubledDense(layers.Dense):
    def call(self, inputs):
        return 2 * super().call(inputs)


def apply(shape, function):
    inputs = keras.Input(shape)
    return keras.Model(inputs, function(inputs))


def quantized(inputs):
    layer = layers.Dense(2, name="one")
    outputs = layer(inputs)
    layer.quantize("int8")
    return outputs


def in_training(inputs):
    inner = keras.Sequential([keras.Input((4,)), layers.BatchNormalization()], name="one")
    return inner(inputs, training=True)


def with_two_inputs():
    inputs = keras.Input((4,)), keras.Input((4,))
    return keras.Model(inputs, layers.Add()(inputs))


FLAT, IMAGE = (4,), (6, 6, 2)
LEVELS = {"padding": "same", "pad_values": -1, "input_estimator": DoReFa(1)}
FIRST_AXIS_CONVOLUTION = BinaryConv2D(2, 3, data_format="channels_first")
UNPACKABLE = {  # the shape of the input, a function of it, and words of the error
    "transposed": (IMAGE, BinaryConv2DTranspose(2, 3, name="one"), "'one'.*page Deployment"),
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
}
OTHER_MODELS = {
    "two inputs": (with_two_inputs, "one input.*inputs of float32, float32"),
    "integers": (
        lambda: keras.Sequential([keras.Input(FLAT, dtype="uint8"), layers.Dense(2)]),
        "in float32.*inputs of uint8",
    ),
    # JAX does not even build this model.
    "eager": (eager, "EagerDense.call to call only layers.*`return self.*`|Call it on a batch"),
}


@pytest.mark.parametrize("case", [*UNPACKABLE, *OTHER_MODELS])
def test_unpackable_model_is_named(case, tmp_path):
    if case in UNPACKABLE:
        shape, function, words = UNPACKABLE[case]
        model = apply(shape, function)
    else:
        make, words = OTHER_MODELS[case]
        model = make()
    with pytest.raises(PackError, match=words):
        pack(model, tmp_path / "model.dann")
    assert list(tmp_path.iterdir()) == []


def test_path_instead_of_model_is_refused(tmp_path):
    with pytest.raises(TypeError, match="Received: 'file.dann'.*load_model"):
        to_c("file.dann", tmp_path / "net.c")


@pytest.mark.parametrize("name", ["", "2x", "a-b", "é", "a b"])
def test_name_must_be_an_identifier(name, tmp_path):
    model = keras.Sequential([keras.Input(FLAT), layers.Dense(2)])
    with pytest.raises(ValueError, match=f"`name` to be a letter.*Received: {name!r}"):
        to_c(model, tmp_path / "net.c", name)


def test_name_must_be_text(tmp_path):
    with pytest.raises(TypeError, match="`name` to be text. Received: 3"):
        to_c(keras.Sequential([keras.Input(FLAT), layers.Dense(2)]), tmp_path / "net.c", name=3)


def test_other_arguments_are_refused(tmp_path):
    model, path = keras.Sequential([keras.Input(FLAT), layers.Dense(2)]), tmp_path / "model.dann"
    pack(model, path)
    with pytest.raises(ValueError, match="'packed', 'c'.*gguf"):
        export(model, path, "gguf", np.zeros((2, 4)))
    with pytest.raises(ValueError, match=r"inputs \(n, \*\(4,\)\).*\(2, 3\)"):
        load(path).predict(np.zeros((2, 3)))
