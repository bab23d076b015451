"""Ways that agree, and one that does not."""

import keras
import numpy as np
import pytest
from keras import ops
from support.networks import linear, linear_parts, with_random_weights
from support.one_step import MODES
from support.pair import LABELS, PAIR, SOURCE

import dann
from dann.diagnostics import way_parity
from dann.gradients import binary_sign
from dann.layers import BinaryDense, BinarySign


@pytest.mark.parametrize("mode", MODES)
def test_the_ways_of_every_layer_agree(mode):
    inputs = keras.Input((3,))
    hidden = BinaryDense(4, name="dense")(BinarySign(name="sign")(inputs))
    parts = linear_parts() | {"backbone": keras.Model(inputs, hidden, name="backbone")}
    model = with_random_weights(dann.DANN(**parts, domain_head=linear(4, 1, "domain_head")))
    model.compile("sgd")
    steps = int(model.reversal.step)
    found = way_parity(model, (PAIR, LABELS), mode=mode)
    layers = {"sign", "dense/input_sign", "dense/kernel_sign", "reversal"}
    assert {name.split("/", 1)[1] for name in found} == {
        f"{layer}/{kind}" for layer in layers for kind in ("value", "gradient")
    } | {"value", "gradient"}
    assert found == dict.fromkeys(found, 0.0)
    assert int(model.reversal.step) == steps


class OneWayOff(keras.layers.Layer):
    """By `"stop_gradient"` its value is higher by .25 and its gradient 3 times as long."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.way = "override"

    def build(self, input_shape):
        self.scale = self.add_weight(shape=(), initializer="ones")

    def call(self, inputs):
        outputs = self.scale * inputs
        if self.way == "stop_gradient":
            return ops.stop_gradient(outputs + 0.25) + 3 * (outputs - ops.stop_gradient(outputs))
        return outputs


def test_a_way_that_differs_is_found_by_how_much():
    inputs = keras.Input((3,))
    model = keras.Model(inputs, OneWayOff(name="off")(binary(inputs)))
    x = SOURCE.astype("float32")
    upstream = np.random.default_rng(0).normal(size=x.shape)
    found = way_parity(model, x, mode="eager")
    # Of the weight the gradient is the sum of inputs times upstream.
    of_inputs, of_scale = np.abs(2 * upstream).max(), abs(2 * np.sum(upstream * np.sign(x)))
    assert found["way_parity/off/value"] == pytest.approx(0.25, rel=1e-6)
    assert found["way_parity/off/gradient"] == pytest.approx(max(of_inputs, of_scale), rel=1e-5)
    assert found["way_parity/gradient"] == found["way_parity/off/gradient"]
    assert model.layers[-1].way == "override"


def binary(inputs):
    return keras.layers.Lambda(binary_sign)(inputs)


def test_a_model_without_ways_has_no_difference():
    found = way_parity(linear(3, 2, "plain"), SOURCE)
    assert found == {"way_parity/value": 0.0, "way_parity/gradient": 0.0}
