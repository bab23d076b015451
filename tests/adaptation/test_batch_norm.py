"""Batch normalization with the statistics of the target, against NumPy."""

import keras
import numpy as np
import pytest
from support.arrays import assert_all_close, assert_all_equal

import dann

TARGET = np.random.default_rng(0).normal(2.0, 3.0, (7, 4)).astype("float32")


def two_normalizations():
    """Returns two layers of batch normalization; the first is within a nested model."""
    layers = [keras.Input((4,)), keras.layers.Dense(3), keras.layers.BatchNormalization()]
    backbone = keras.Sequential([*layers, keras.layers.Dropout(0.5)])
    entry = keras.Input((4,))
    hidden = keras.layers.Dense(2, activation="tanh")(backbone(entry))
    network = keras.Model(entry, keras.layers.BatchNormalization()(hidden), name="network")
    rng = np.random.default_rng(1)
    network.set_weights([rng.uniform(0.5, 1.5, weight.shape) for weight in network.weights])
    return network


def normalize(x, gamma, beta):
    return gamma * (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 0.001) + beta


@pytest.mark.parametrize("batch_size", [3, 256])
def test_each_layer_follows_adapted_layers(batch_size):
    network = two_normalizations()
    weights = network.get_weights()
    adapted = dann.adapt_batch_norm(network, TARGET, batch_size)
    kernel_1, bias_1, gamma_1, beta_1, _, _, kernel_2, bias_2, gamma_2, beta_2, _, _ = weights
    first = TARGET.astype(float) @ kernel_1 + bias_1
    second = np.tanh(normalize(first, gamma_1, beta_1) @ kernel_2 + bias_2)
    expected = [*weights[:4], first.mean(axis=0), first.var(axis=0), *weights[6:10]]
    expected += [second.mean(axis=0), second.var(axis=0)]
    assert_all_close(adapted.get_weights(), expected, rtol=1e-5)
    outputs = adapted.predict(TARGET, verbose=0)
    np.testing.assert_allclose(outputs, normalize(second, gamma_2, beta_2), rtol=1e-4, atol=1e-5)
    assert_all_equal(network.get_weights(), weights)


def test_adapted_method_is_a_plain_saved_network(tmp_path):
    backbone = dann.networks.cnn_backbone((8, 8, 1), filters=(2, 3), units=4)
    model = dann.DANN(backbone, num_classes=2)
    images = np.random.default_rng(2).uniform(0, 255, (6, 8, 8, 1))
    adapted = dann.adapt_batch_norm(model, images)
    adapted.save(tmp_path / "adapted.keras")
    logits = keras.models.load_model(tmp_path / "adapted.keras").predict(images, verbose=0)
    np.testing.assert_allclose(logits, adapted.predict(images, verbose=0), rtol=1e-6)
    assert np.abs(logits - model.predict(images, verbose=0)).max() > 1e-3


@pytest.mark.parametrize("axis", [1, -1])
def test_positions_and_masks(axis):
    x = np.random.default_rng(3).normal(size=(5, 6, 4)).astype("float32")
    x[:, 4:] = 0.0
    layers = [keras.Input((6, 4)), keras.layers.BatchNormalization(axis=axis)]
    if axis == -1:
        layers.insert(1, keras.layers.Masking())
    layer = dann.adapt_batch_norm(keras.Sequential(layers), x, 2).layers[-1]
    rows = x[:, :4].reshape(-1, 4) if axis == -1 else np.moveaxis(x, 1, 2).reshape(-1, 6)
    np.testing.assert_allclose(layer.moving_mean, rows.mean(axis=0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(layer.moving_variance, rows.var(axis=0), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "wrap", [lambda layer: [], lambda layer: [keras.layers.TimeDistributed(layer)]]
)
def test_refuses_networks_without_reachable_layers(wrap):
    layers = [keras.Input((3, 2)), keras.layers.Dense(2), *wrap(keras.layers.BatchNormalization())]
    with pytest.raises(ValueError, match="Expected a network with layers of batch normalization"):
        dann.adapt_batch_norm(keras.Sequential(layers), np.ones((4, 3, 2)))
