"""Outputs of a network outside of a training step."""

import gc

import keras
import numpy as np
import pytest

from dann.adaptation import prediction
from dann.adaptation.prediction import final_weights, predict

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


def test_final_weights_are_averages_only_in_the_block():
    network = build_network()
    network.compile(keras.optimizers.SGD(0.5, use_ema=True, ema_momentum=0.5), "mse")
    for _ in range(2):  # the average starts with the weights after the first step
        network.train_on_batch(X, np.ones((10, 4)))
    before = network.get_weights()
    with final_weights(network):
        averages = network.get_weights()
    assert not np.allclose(averages[0], before[0])
    for weight, expected in zip(network.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, expected)
