"""Summaries count the weights and products of packed files."""

import keras
import pytest
from keras import layers, ops
from packable_networks import eager

from dann.deployment import PackError, pack, summarize
from dann.layers import BinaryConv2D, BinaryDense


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


def test_layers_that_cannot_be_packed_have_a_reason():
    inputs = keras.Input((7, 4))
    x, state, _ = layers.LSTM(3, return_sequences=True, return_state=True, name="lstm")(inputs)
    x = layers.LayerNormalization(name="norm")(x)
    x = BinaryDense(70, use_bias=False, name="binary")(x)
    first, _ = ops.split(layers.Dense(4, activation="celu", name="dense")(x), 2, axis=-1)
    table = summarize(keras.Model(inputs, [first, state]))
    refused = {"lstm": "LSTM", "norm": "LayerNormalization", "dense/celu": "Celu", "split": "Split"}
    assert {*table.index} == {*refused, "binary", "dense"}
    for name, reason in table.reason.items():
        assert reason.endswith(f"Received: {refused[name]}" if name in refused else "")
        assert bool(reason) == (name in refused)
    assert table.numbers.to_dict() == {
        **{"lstm": 4 * 3 * (4 + 3 + 1), "norm": 6, "dense/celu": 0, "split": 0},
        **{"binary": 0, "dense": 4 * 71},
    }
    assert (table.bits["binary"], table.binary_macs["binary"]) == (3 * 70, 7 * 3 * 70)
    assert table.output_shape["lstm"] == (7, 3)


def test_networks_that_do_not_pack_are_summarized():
    words, numbers = keras.Input((3,), dtype="int32"), keras.Input((4,))
    parts = [layers.Flatten()(layers.Embedding(5, 2)(words)), numbers]
    two_inputs = summarize(keras.Model([words, numbers], layers.Concatenate(name="join")(parts)))
    assert two_inputs.output_shape["join"] == (10,)
    sizes = [keras.Input((None, None, 2)), BinaryConv2D(4, 3, name="conv", use_bias=False)]
    unknown = summarize(keras.Sequential(sizes))
    assert unknown.output_shape["conv"] == (None, None, 4)
    assert "fixed size (give `keras.Input`" in unknown.reason["conv"]
    assert summarize(eager()).numbers.to_dict() == {"eager": 15}
    with pytest.raises(PackError, match=r"known inputs.*Call it on a batch"):
        summarize(keras.Sequential([layers.Dense(2)]))
