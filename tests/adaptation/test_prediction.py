"""Outputs of a network outside of a training step."""

import gc

import keras
import numpy as np
import pytest

from dann.adaptation import prediction
from dann.adaptation.prediction import predict

X = np.random.default_rng(0).normal(size=(10, 3)).astype("float32")


def build_network():
    layers = [keras.Input((3,)), keras.layers.Dense(4), keras.layers.BatchNormalization()]
    return keras.Sequential(layers)


@pytest.mark.parametrize("batch_size", [1, 256], ids=["compiled", "eager"])
def test_outputs_follow_the_current_weights(batch_size):
    network = build_network()
    for factor in (1, 2):
        network.set_weights([factor * weight for weight in network.get_weights()])
        expected = keras.ops.convert_to_numpy(network(X, training=False))
        outputs = predict(network, X, batch_size)
        np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)


def test_compiled_function_lives_as_long_as_its_network():
    gc.collect()
    before = len(prediction._COMPILED)
    network = build_network()
    predict(network, X, batch_size=1)
    assert len(prediction._COMPILED) == before + 1
    del network
    gc.collect()
    assert len(prediction._COMPILED) == before
