"""Models that cannot be packed are counted by hand."""

import functools

import keras
import numpy as np
import pytest
from keras import layers

from dann import DANN
from dann.deployment import PackError, summarize
from dann.gradients import binary_sign
from dann.gradients.estimators import DoReFa
from dann.layers import (
    BinaryConv2D,
    BinaryConv2DTranspose,
    BinaryDense,
    BinarySeparableConv2D,
    BinarySign,
)


def rows_of(summary):
    return {layer.name: layer for layer in summary.layers}


def macs(row):
    return row.binary_macs, row.float_macs


def several_kinds():
    inputs = keras.Input((4, 4, 3))
    x = layers.Conv2D(5, 3, strides=2, groups=1, name="conv")(inputs)
    x = layers.PReLU(name="prelu")(x)
    x = BinaryConv2DTranspose(2, 3, kernel_estimator="magnitude_aware", name="wider")(x)
    x = layers.LayerNormalization(axis=(1, 2, 3), name="norm")(x)
    x = BinarySeparableConv2D(4, 2, use_bias=False, name="apart")(x)
    x = layers.Flatten(name="flat")(layers.MaxPooling2D(name="pool")(keras.ops.relu(x)))
    x = BinaryDense(3, kernel_estimator="ternary", name="three")(x)
    x = BinaryDense(3, kernel_estimator=DoReFa(5, "kernel"), use_bias=False, name="levels")(x)
    x = BinaryDense(3, kernel_estimator="ede", input_estimator="ede", name="sharp")(x)
    x = layers.Reshape((1, 3), name="shape")(x)
    x = layers.MultiHeadAttention(1, 2, name="heads")(x, x)
    return keras.Model(inputs, x)


def test_each_kind_of_layer_is_counted_by_hand():
    summary = summarize(without_heads(several_kinds()))
    # An operation of `keras.ops` has the number that is next in this process.
    rows = {name.partition("_")[0]: row for name, row in rows_of(summary).items()}
    # bits, precision, shape, multiply-accumulates of signs and others
    expected = {
        "conv": (32 * (135 + 5), "float32", (1, 1, 5), (0, 135)),
        "prelu": (32 * 5, "float32", (1, 1, 5), (0, 0)),
        "wider": (90 + 32 * 2 + 32 * 2, "1 bit", (3, 3, 2), (90, 0)),
        "norm": (32 * 36, "float32", (3, 3, 2), (0, 0)),
        "apart": (8 + 8, "1 bit", (2, 2, 4), (4 * 8, 4 * 8)),
        "relu": (0, "", (2, 2, 4), (0, 0)),
        "pool": (0, "", (1, 1, 4), (0, 0)),
        "flat": (0, "", (4,), (0, 0)),
        "three": (2 * 12 + 32 * 3, "2 bits", (3,), (0, 12)),
        "levels": (5 * 9, "5 bits", (3,), (0, 9)),
        "sharp": (9 + 32 * 3, "1 bit", (3,), (9, 0)),
        "shape": (0, "", (1, 3), (0, 0)),
    }
    assert list(rows) == list(expected)
    for name, (bits, precision, shape, products) in expected.items():
        row = rows[name]
        assert (row.bits, row.precision, row.shape) == (bits, precision, shape), name
        assert (row.bytes, macs(row)) == (-(-bits // 8), products), name
    assert summary.bytes == sum(-(-bits // 8) for bits, *_ in expected.values())
    assert summary.binary_macs == 90 + 32 + 9
    assert summary.float_macs == 135 + 32 + 12 + 9


def without_heads(model):
    return keras.Model(model.input, model.get_layer("shape").output)


def test_it_says_that_it_is_an_estimate_and_why():
    summary = summarize(several_kinds())
    assert not summary.packable
    assert summary.directory == 0
    lines = str(summary).splitlines()
    assert not any(line.startswith("header") for line in lines)
    assert lines[-2].endswith("times the estimate")
    assert lines[-1].startswith("An estimate, because it cannot be packed: Layer 'heads' must be")


def test_of_layers_without_a_known_kernel_the_products_are_not_known():
    inputs = keras.Input((3, 4))
    x = layers.LSTM(2, name="memory")(inputs)
    summary = summarize(keras.Model(inputs, layers.Dense(3, name="last")(x)))
    rows = rows_of(summary)
    assert (rows["memory"].bits, macs(rows["memory"])) == (32 * (32 + 16 + 8), (None, None))
    assert macs(rows["last"]) == (0, 6)
    assert (summary.binary_macs, summary.float_macs) == (0, 6)
    lines = [line.split() for line in str(summary).splitlines()]
    assert lines[1][-2:] == ["?", "?"]
    assert lines[3][-6:] == ["0", "+", "?", "6", "+", "?"]


def test_calls_are_counted_each_and_weights_once():
    inputs = keras.Input((4, 6, 2))
    twice = BinaryConv2D(2, 1, kernel_estimator="ternary", use_bias=False, name="twice")
    shrunk = layers.MaxPooling2D()(twice(inputs))
    x = layers.Add()([layers.Flatten()(twice(shrunk)), layers.Flatten()(shrunk)])
    model = keras.Model(inputs, x)
    twice.set_weights([np.reshape([0.5, -0.5, 0.0, 0.5], (1, 1, 2, 2))])
    row = rows_of(summarize(model))["twice"]
    assert (row.bits, macs(row)) == (2 * 4, (0, 24 * 4 + 6 * 4))


def test_signs_are_known_through_layers_that_keep_them():
    inputs = keras.Input((8, 2))
    x = layers.Flatten()(layers.MaxPooling1D()(BinarySign()(inputs)))
    x = BinaryDense(3, input_estimator=None, use_bias=False, name="signs")(x)
    x = BinaryDense(3, input_estimator=None, use_bias=False, name="sums")(layers.ReLU()(x))
    x = BinarySign(estimator="ternary")(layers.PReLU()(x))
    x = BinaryDense(2, input_estimator=None, name="three")(x)
    rows = rows_of(summarize(keras.Model(inputs, x)))
    found = {name: macs(rows[name]) for name in ("signs", "sums", "three")}
    assert found == {"signs": (24, 0), "sums": (0, 9), "three": (0, 6)}


@pytest.mark.parametrize("signs", [binary_sign, functools.partial(binary_sign, way="override")])
@pytest.mark.parametrize("inside", [False, True])
def test_signs_are_known_where_an_activation_gives_them(signs, inside):
    dense = keras.layers.Dense(8, activation=signs if inside else None)
    between = [] if inside else [keras.layers.Activation(signs)]
    last = BinaryDense(3, input_estimator=None, use_bias=False, name="last")
    summary = summarize(keras.Sequential([keras.Input((4,)), dense, *between, last]))
    assert not summary.packable
    assert macs(rows_of(summary)["last"]) == (24, 0)


def test_channels_may_come_first():
    inputs = keras.Input((2, 6, 5))
    layer = layers.Conv2D(3, 2, use_bias=False, data_format="channels_first", name="one")
    row = rows_of(summarize(keras.Model(inputs, layer(inputs))))["one"]
    assert (row.shape, macs(row)) == ((3, 5, 4), (0, 5 * 4 * 3 * 2 * 4))


class Nested(keras.Model):
    """Looks at numbers, so its graph is not known; has a weight of its own, a layer in a layer."""

    def __init__(self):
        super().__init__()
        self.first = keras.Sequential([BinaryDense(9, use_bias=False, name="within")], name="part")
        self.last = layers.TimeDistributed(BinaryDense(2, name="inner"), name="last")
        self.gain = self.add_weight(shape=(5,), name="gain")

    def call(self, inputs):
        np.asarray(inputs)
        return self.last(self.first(inputs))


def test_a_model_without_a_known_graph_is_still_summarized():
    model = Nested()
    with pytest.raises(PackError, match="must be built"):
        summarize(model)
    model(np.zeros((1, 2, 7)))
    rows = rows_of(summarize(model))
    assert {name: (row.bits, row.precision, row.shape) for name, row in rows.items()} == {
        "part/within": (63, "1 bit", ()),
        "last": (18 + 32 * 2, "1 bit", ()),
        model.name: (32 * 5, "float32", ()),
    }
    assert all(macs(row) == (None, None) for row in rows.values())


def test_keras_8_bit_layers_and_mixed_precision():
    model = keras.Sequential(
        [
            keras.Input((8,)),
            BinaryDense(4, dtype="mixed_bfloat16", name="mixed"),
            layers.Dense(3, name="whole"),
        ]
    )
    model.layers[1].quantize("int8")
    rows = rows_of(summarize(model))
    assert (rows["mixed"].bits, macs(rows["mixed"])) == (32 + 32 * 4, (32, 0))
    # Scales of the channels, and the bias.
    assert (rows["whole"].bits, rows["whole"].precision) == (8 * 12 + 32 * (3 + 3), "int8")


def test_of_a_method_the_classifier_is_taken():
    inputs = keras.Input((4,))
    backbone = keras.Model(inputs, layers.PReLU(name="bent")(inputs))
    head = keras.Sequential([keras.Input((4,)), layers.Dense(2)])
    summary = summarize(DANN(backbone, label_head=head))
    assert sum(row.bits for row in summary.layers) == 32 * (4 + 4 * 2 + 2)
    assert "bent' cannot be packed" in summary.reason
