"""The gradients that pass binary layers, against closed forms."""

import keras
import numpy as np
import pytest
from support.formulas import linear_dann
from support.pair import ALL_INPUTS, LABELS, PAIR

from dann.diagnostics import straight_through_health
from dann.layers import BinaryDense, BinarySign

X = np.random.default_rng(7).normal(scale=1.3, size=(64, 3)).astype("float32")


def test_pass_rate_is_the_fraction_within_one():
    x = np.array([[-3.0, -1.0, 0.0, 0.5, 1.0, 1.5]], "float32")
    assert straight_through_health(BinarySign(name="sign"), x) == {
        "binary/sign/pass_rate": pytest.approx(4 / 6),
        "binary/sign/deviation": pytest.approx(x.std()),
    }


@pytest.mark.parametrize("joint_forward", [True, False])
def test_pass_rate_covers_both_domains(joint_forward):
    inputs = keras.Input((3,))
    features = keras.layers.Dense(4)(BinarySign(name="sign")(inputs))
    model = linear_dann(backbone=keras.Model(inputs, features), joint_forward=joint_forward)
    measurements = straight_through_health(model, (PAIR, LABELS))
    expected = np.mean(np.abs(ALL_INPUTS) <= 1)
    assert measurements["binary/sign/pass_rate"] == pytest.approx(expected)


def test_binary_layer_is_measured_at_inputs_and_kernel():
    inputs = keras.Input((3,))
    model = keras.Model(inputs, BinaryDense(2, name="dense")(inputs))
    kernel = np.array([[0.5, -0.2], [1.0, 0.1], [-0.7, 0.3]], "float32")
    model.layers[-1].kernel.assign(kernel)
    measurements = straight_through_health(model, X)
    expected = np.mean(np.abs(X) <= 1)
    assert measurements["binary/dense/input_sign/pass_rate"] == pytest.approx(expected)
    assert measurements["binary/dense/kernel_sign/pass_rate"] == 1
