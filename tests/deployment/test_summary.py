"""Summaries count the weights and products of packed files."""

import keras
from keras import layers

from dann.deployment import pack, summarize
from dann.layers import BinaryConv2D, BinaryDense, BinaryDepthwiseConv2D


def test_weights_of_every_layer_are_counted(tmp_path):
    inputs = keras.Input((6, 6, 2))
    x = layers.Conv2D(5, 3, name="first")(inputs)
    x = layers.BatchNormalization(name="norm")(x)
    x = BinaryConv2D(70, 3, padding="same", use_bias=False, name="conv")(x)
    x = layers.BatchNormalization(name="fold")(x)
    x = layers.Flatten(name="flat")(layers.Dropout(0.5)(x))
    x = BinaryDense(3, use_bias=False, name="last")(x)
    model = keras.Model(inputs, x)
    table = summarize(model)
    rows = table.T
    assert list(rows) == ["first", "norm", "conv", "fold", "flat", "last"]
    first, conv, fold = rows["first"], rows["conv"], rows["fold"]
    assert (first.bits, first.numbers, first.output_shape) == (0, 3 * 3 * 2 * 5 + 5, (4, 4, 5))
    assert (first.binary_macs, first.float_macs) == (0, 16 * 5 * 18)
    assert rows["norm"].bytes == 4 * 5 * 2
    assert (conv.bits, conv.numbers, conv.output_shape) == (45 * 70, 0, (4, 4, 70))
    assert (conv.binary_macs, conv.float_macs) == (16 * 70 * 45, 0)
    assert (fold.bits, fold.numbers, fold.bytes) == (70, 70, 9 + 280)
    assert (rows["flat"].bytes, rows["last"].bytes) == (0, 3 * 1120 // 8)
    assert 0 <= pack(model, tmp_path / "model.dann") - table["bytes"].sum() < 4000


def test_shared_layer_counts_products_per_call():
    inputs = keras.Input((6, 6, 4))
    x = BinaryConv2D(8, 3, groups=2, use_bias=False, name="grouped")(inputs)
    x = BinaryDepthwiseConv2D(2, depth_multiplier=3, use_bias=False, name="depthwise")(x)
    x = BinaryDense(7, use_bias=False, name="signs")(layers.Flatten()(x))
    floats = BinaryDense(7, input_estimator=None, use_bias=False, name="floats")
    table = summarize(keras.Model(inputs, floats(floats(x))))
    rows = table[table["bytes"] > 0]
    macs = dict(zip(rows.index, zip(rows.binary_macs, rows.float_macs, strict=True), strict=True))
    counts = {"grouped": 16 * 8 * 9 * 2, "depthwise": 9 * 24 * 4, "signs": 7 * 216}
    assert macs == {**{n: (count, 0) for n, count in counts.items()}, "floats": (0, 2 * 7 * 7)}
    assert table.bits["floats"] == 49
