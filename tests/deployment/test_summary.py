"""Summaries count what is there."""

import keras
import pytest
from keras import layers

from dann.deployment import PackError, summarize
from dann.layers import BinaryConv2D, BinaryDense, BinaryDepthwiseConv2D, RPReLU, RSign


def test_every_layer_is_counted_by_hand():
    inputs = keras.Input((6, 6, 2))
    x = layers.Conv2D(5, 3, name="first")(inputs)
    x = layers.BatchNormalization(name="norm")(x)
    x = BinaryConv2D(70, 3, padding="same", name="conv")(x)
    x = layers.Flatten(name="flat")(x)
    x = BinaryDense(3, use_bias=False, name="last")(x)
    table = summarize(keras.Model(inputs, x))
    rows = table.T
    assert list(rows) == ["first", "norm", "conv", "flat", "last"]
    assert rows["first"].weights == {32: 3 * 3 * 2 * 5 + 5}
    assert (rows["first"].binary_macs, rows["first"].float_macs) == (0, 16 * 5 * 18)
    assert rows["norm"].bytes == 4 * 5 * 4
    assert (rows["conv"].output_shape, rows["conv"].weights) == ((4, 4, 70), {1: 45 * 70, 32: 70})
    assert (rows["conv"].binary_macs, rows["conv"].float_macs) == (16 * 70 * 45, 0)
    assert (rows["flat"].bytes, rows["last"].bytes) == (0, 3 * 1120 // 8)
    floats = 95 + 4 * 5 + 45 * 70 + 70 + 3 * 1120
    assert table["float_bytes"].sum() == 4 * floats
    assert table["bytes"].sum() == 4 * (95 + 20 + 70) + (45 * 70 + 7) // 8 + 3 * 1120 // 8


def test_the_state_of_a_quantizer_does_not_count():
    inputs = keras.Input((5,))
    x = BinaryDense(3, kernel_estimator="ede", name="biased")(RSign(name="shifted")(inputs))
    x = BinaryDense(2, kernel_estimator="magnitude_aware", use_bias=False, name="scaled")(x)
    rows = summarize(keras.Model(inputs, RPReLU()(x))).T
    assert rows["shifted"].weights == {32: 5}
    assert rows["biased"].weights == {1: 15, 32: 3}
    assert rows["scaled"].weights == {1: 6, 32: 2}


def test_products_are_counted_in_every_call():
    inputs = keras.Input((6, 6, 4))
    x = BinaryConv2D(8, 3, groups=2, name="grouped")(inputs)
    x = BinaryDepthwiseConv2D(2, depth_multiplier=3, name="depthwise")(x)
    x = BinaryDense(7, name="signs")(layers.Flatten()(x))
    floats = BinaryDense(7, input_estimator=None, name="floats")
    table = summarize(keras.Model(inputs, floats(floats(x))))
    rows = table[table["bytes"] > 0]
    macs = dict(zip(rows.index, zip(rows.binary_macs, rows.float_macs, strict=True), strict=True))
    counts = {"grouped": 16 * 8 * 9 * 2, "depthwise": 9 * 24 * 4, "signs": 7 * 216}
    assert macs == {**{n: (count, 0) for n, count in counts.items()}, "floats": (0, 2 * 7 * 7)}


def test_what_cannot_be_packed_is_counted():
    inputs = keras.Input((4, 3))
    x = layers.LSTM(5, name="lstm")(BinaryDense(3, kernel_estimator="ternary", name="two")(inputs))
    rows = summarize(keras.Model(inputs, layers.Conv1DTranspose(2, 3)(x[:, None]))).T
    assert rows["two"].weights == {2: 9, 32: 3}
    assert (rows["lstm"].weights, rows["lstm"].float_macs) == ({32: 4 * 5 * (3 + 5 + 1)}, None)


class Unknown(keras.Sequential):
    def call(self, inputs):
        return keras.ops.convert_to_tensor(keras.ops.convert_to_numpy(super().call(inputs)))


def test_a_model_without_a_graph_is_counted_once_it_is_built():
    model = Unknown([BinaryDense(5, use_bias=False)])
    with pytest.raises(PackError, match="call it on a batch"):
        summarize(model)
    model.build((None, 4))
    (row,) = summarize(model).itertuples()
    assert (row.weights, row.binary_macs) == ({1: 20}, None)
