"""Layers with NaN, zeros or gradients that do not pass, in models whose faults are known."""

import keras
import numpy as np
import pytest
from keras import layers, ops
from linear_models import DATA
from support.arrays import ALL_INPUTS, LABELS, PAIR
from support.networks import linear_dann

from dann.diagnostics import check, straight_through_health
from dann.diagnostics.check import measure
from dann.layers import BinaryDense

X = DATA[0]["source"]


class Logarithm(layers.Layer):
    def call(self, inputs):
        return ops.log(inputs)


class Wrapper(keras.Model):
    """A model that Keras sees only as a `call` method."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def call(self, inputs):
        return {"labels": self.network(inputs)}


def chain(*parts):
    return keras.Sequential([keras.Input((3,)), *parts])


def relu_layer(dead=14):
    """Returns a layer of 16 units, the first `dead` of which return 0."""
    bias = np.where(np.arange(16) < dead, -1e3, 1e3)
    return layers.Dense(16, "relu", name="hidden", bias_initializer=lambda *_, **__: bias)


@pytest.mark.parametrize(
    ("build", "name", "words"),
    [
        (lambda: chain(layers.Dense(4), Logarithm(name="log"), layers.Dense(2)), "diverged", "log"),
        (lambda: Wrapper(chain(Logarithm())), "diverged", "'wrapper'"),
        (lambda: chain(relu_layer(), layers.Dense(2)), "dead units", "14 of 16 in layer 'hidden'."),
        (lambda: chain(layers.ReLU(max_value=0, name="z")), "dead units", "3 of 3 in layer 'z'."),
        (lambda: chain(relu_layer(dead=7), layers.Dense(2)), "undetermined", "no `GradientRev"),
    ],
)
def test_check_names_the_first_layer_at_fault(build, name, words):
    verdict = check(build(), X, mode="eager").verdict
    assert verdict.name == name
    assert words in verdict.reasons[0]
    assert "Diverged" not in str(verdict)  # nothing was trained


@pytest.mark.parametrize("joint_forward", [True, False])
def test_pass_rates_cover_both_domains_and_the_kernel(joint_forward):
    inputs = keras.Input((3,))
    backbone = keras.Model(inputs, BinaryDense(4, name="dense")(inputs))
    model = linear_dann(backbone=backbone, joint_forward=joint_forward)
    measurements = straight_through_health(model, (PAIR, LABELS))
    assert measure(model, (PAIR, LABELS), ["straight_through_health"])[0] == measurements
    for name, values in (("input", ALL_INPUTS), ("kernel", np.array(backbone.layers[-1].kernel))):
        expected = np.mean(np.abs(values) <= 1)
        assert 0 < expected < 1
        assert measurements[f"binary/dense/{name}_sign/pass_rate"] == pytest.approx(expected)
        assert measurements[f"binary/dense/{name}_sign/deviation"] == pytest.approx(values.std())


def test_binary_layers_are_measured_only_if_there_are_any():
    lines = []
    names = ["straight_through_health", "layer_outputs"]
    measure(keras.layers.Dense(2), np.ones((3, 4)), names, print_fn=lines.append)
    assert [line.split(":")[0] for line in lines] == ["1/1 layer_outputs"]
