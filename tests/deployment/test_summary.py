"""Summaries count what is there."""

import keras
import numpy as np
import pytest
from keras import layers
from support.packable_networks import NETWORKS

from dann.deployment import PackError, load, pack, summarize
from dann.layers import (
    BinaryConv2D,
    BinaryDense,
    BinaryDepthwiseConv2D,
    BinarySeparableConv2D,
    BinarySign,
    RPReLU,
    RSign,
)
from dann.networks import binary_label_head, binary_mlp_backbone


@pytest.mark.parametrize("name", NETWORKS)
def test_the_total_is_the_size_of_the_file(name, tmp_path):
    model = NETWORKS[name]()
    summary = summarize(model)
    assert (summary.packable, summary.reason) == (True, None)
    assert summary.bytes == pack(model, tmp_path / "model.dann")
    assert summary.bytes == (tmp_path / "model.dann").stat().st_size


def test_every_layer_is_counted_by_hand():
    inputs = keras.Input((6, 6, 2))
    x = layers.Conv2D(5, 3, use_bias=True, name="first")(inputs)
    x = layers.BatchNormalization(name="norm")(x)
    x = BinaryConv2D(70, 3, padding="same", use_bias=False, name="conv")(x)
    x = layers.BatchNormalization(name="fold")(x)
    x = layers.Flatten(name="flat")(x)
    x = BinaryDense(3, use_bias=False, name="last")(x)
    summary = summarize(keras.Model(inputs, x))
    rows = {layer.name: layer for layer in summary.layers}
    assert list(rows) == ["first", "norm", "conv", "fold", "flat", "last"]
    weights = 3 * 3 * 2 * 5 + 5
    assert rows["first"].precision == "float32"
    assert (rows["first"].bits, rows["first"].bytes) == (32 * weights, 4 * weights)
    assert (rows["first"].binary_macs, rows["first"].float_macs) == (0, 16 * 5 * 18)
    assert (rows["norm"].bits, rows["norm"].bytes) == (2 * 5 * 32, 2 * 5 * 4)
    assert rows["conv"].shape == (4, 4, 70)
    assert rows["conv"].precision == "1 bit"
    assert (rows["conv"].bits, rows["conv"].bytes) == (45 * 70, 8 * 70)  # a word for 45 bits
    assert (rows["conv"].binary_macs, rows["conv"].float_macs) == (16 * 70 * 45, 0)
    assert rows["fold"].precision == "int32"
    assert (rows["fold"].bits, rows["fold"].bytes) == (33 * 70, 4 * 70 + 2 * 8)
    assert (rows["flat"].bytes, rows["flat"].precision) == (0, "")
    assert (rows["last"].bits, rows["last"].bytes) == (3 * 1120, 3 * 18 * 8)
    assert summary.binary_macs == 16 * 70 * 45 + 3 * 1120
    floats = weights + 4 * 5 + 45 * 70 + 4 * 70 + 3 * 1120
    assert summary.float_bytes == 4 * floats


def test_each_layer_is_stored_with_its_own_weights(tmp_path):
    """A bias and shifts are stored alone; of schedules nothing is."""
    inputs = keras.Input((5,))
    x = BinaryDense(3, kernel_estimator="ede", name="biased")(RSign(name="shifted")(inputs))
    model = keras.Model(inputs, RPReLU(name="bent")(x))
    summary = summarize(model)
    rows = {layer.name: layer for layer in summary.layers}
    assert rows["biased"].bits == 15 + 3 * 32
    assert rows["bent"].bits == 3 * 3 * 32
    assert rows["shifted"].bits == 5 * 32
    assert summary.float_bytes == 4 * (15 + 3 + 9 + 5)
    assert summary.bytes == pack(model, tmp_path / "model.dann")


def test_products_of_signs_are_counted_in_every_layer():
    inputs = keras.Input((6, 6, 4))
    x = BinaryConv2D(8, 3, groups=2, name="grouped")(inputs)
    x = BinaryDepthwiseConv2D(2, depth_multiplier=3, name="depthwise")(x)
    x = BinarySeparableConv2D(5, 2, name="separable")(x)
    x = layers.MaxPooling2D()(BinarySign()(x))
    x = BinaryDense(7, input_estimator=None, name="signs")(layers.Flatten()(x))
    x = BinaryDense(2, input_estimator=None, name="floats")(x)
    rows = {layer.name: layer for layer in summarize(keras.Model(inputs, x)).layers}
    macs = {
        "grouped": (16 * 8 * 9 * 2, 0),
        "depthwise": (9 * 24 * 4, 0),
        "separable": (4 * 24 * 4, 4 * 24 * 5),  # the second kernel takes sums
        "signs": (7 * 5, 0),
        "floats": (0, 2 * 7),
    }
    assert {name: (rows[name].binary_macs, rows[name].float_macs) for name in macs} == macs


def test_a_layer_called_twice_is_stored_once_and_computed_twice(tmp_path):
    inputs = keras.Input((6,))
    shared, last = BinaryDense(6, use_bias=False, name="twice"), BinaryDense(3, use_bias=False)
    norm = layers.BatchNormalization(name="norm")
    model = keras.Model(inputs, last(norm(shared(norm(shared(inputs))))))
    summary = summarize(model)
    rows = {layer.name: layer for layer in summary.layers}
    assert (rows["twice"].bits, rows["twice"].bytes) == (36, 6 * 8)
    assert rows["twice"].binary_macs == 2 * 36
    assert (rows["norm"].bits, rows["norm"].bytes) == (33 * 6, 4 * 6 + 8)
    assert summary.float_bytes == 4 * (36 + 4 * 6 + 18)
    assert summary.bytes == pack(model, tmp_path / "model.dann")
    arrays = 6 * 8 + 4 * 6 + 8 + 3 * 8
    assert summary.bytes - summary.directory == arrays


def test_the_table_names_every_layer_and_the_total():
    model = keras.Sequential([keras.Input((8,)), BinaryDense(3, use_bias=False, name="only")])
    summary = summarize(model)
    lines = str(summary).splitlines()
    assert lines[0].split("  ")[0] == "layer"
    assert lines[1].split() == ["only", "3", "1", "bit", "24", "24", "24"]
    assert lines[-2].split() == ["total", "24", str(summary.bytes), "24", "0"]
    assert lines[-1].startswith("float32 weights: 96 bytes")


@pytest.mark.parametrize(("width", "least"), [(4096, 30), (1024, 27)])
def test_a_wide_binary_perceptron_takes_less_than_a_28th_of_its_float_twin(width, least):
    """BinaryNet's of 3 x 4096; in one of 3 x 1024 the float last layer counts for more."""
    backbone = binary_mlp_backbone((784,), (width,) * 3)
    head = binary_label_head(width, 10, hidden_units=())
    summary = summarize(keras.Model(backbone.input, head(backbone.output)))
    assert least < summary.float_bytes / summary.bytes < least + 1


class Subclassed(keras.Model):
    def __init__(self, of_numbers=False, **kwargs):
        super().__init__(**kwargs)
        self.sign = BinaryDense(5, use_bias=False)
        self.norm, self.last = layers.BatchNormalization(), layers.Dense(3)
        self.of_numbers = of_numbers

    def call(self, inputs, training=None):
        if self.of_numbers:
            keras.ops.convert_to_numpy(inputs)
        return self.last(self.norm(self.sign(inputs), training=training))


def built(model):
    model(keras.ops.ones((1, 4)))
    return model


def in_functional(model):
    inputs = keras.Input((4,))
    return keras.Model(inputs, layers.Dense(2)(model(inputs)))


@pytest.mark.parametrize("nested", [False, True])
def test_a_subclassed_model_is_packed_layer_by_layer(nested, tmp_path):
    model = built(Subclassed())
    model = in_functional(model) if nested else model
    summary = summarize(model)
    assert summary.packable
    assert (summary.layers[0].bits, summary.binary_macs) == (4 * 5, 4 * 5)
    assert summary.float_macs == 5 * 3 + (3 * 2 if nested else 0)
    assert pack(model, tmp_path / "model.dann") == summary.bytes
    inputs = np.random.default_rng(0).normal(size=(7, 4)).astype("float32")
    expected = model.predict(inputs, verbose=0)
    np.testing.assert_allclose(load(tmp_path / "model.dann").predict(inputs), expected, atol=1e-5)


def test_a_subclassed_model_that_needs_numbers_tells_what_to_write_to_pack_it():
    model = Subclassed(of_numbers=True)
    with pytest.raises(PackError, match="begin it with `keras.Input`, or call it on a batch"):
        summarize(model)
    summary = summarize(built(model))
    assert not summary.packable
    assert summary.layers[0].bits == 4 * 5
    assert "give `keras.Model(inputs, outputs)`. Received: Subclassed" in summary.reason
