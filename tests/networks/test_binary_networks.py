"""Binary networks against NumPy, and the layers that are binary."""

import keras
import numpy as np
import pytest
from support.closed_forms import sign

from dann import networks
from dann.layers import BinaryConv2D, BinaryDense, BinarySign

BINARY = (BinaryConv2D, BinaryDense)
MAKERS = {
    "mlp": lambda **kwargs: networks.binary_mlp_backbone((6,), hidden_units=(5, 4), **kwargs),
    "lenet": lambda **kwargs: networks.binary_lenet_backbone((16, 16, 3), filters=(4, 6), **kwargs),
    "resnet": lambda **kwargs: networks.binary_resnet_backbone((8, 8, 3), (4, 6), 1, **kwargs),
    "label_head": lambda **kwargs: networks.binary_label_head(4, 3, hidden_units=(5,), **kwargs),
}
for_each_network = pytest.mark.parametrize("name", MAKERS)


def linear_layers(model):
    kinds = (*BINARY, keras.layers.Dense, keras.layers.Conv2D)
    return [layer for layer in model.layers if isinstance(layer, kinds)]


def get_norms(model):
    return [x for x in model.layers if isinstance(x, keras.layers.BatchNormalization)]


def with_random_statistics(model, seed=0):
    """Draws the statistics of batch normalization; a third of the factors is negative."""
    rng = np.random.default_rng(seed)
    for layer in get_norms(model):
        shape = layer.gamma.shape
        layer.gamma.assign(rng.uniform(-1, 2, shape))
        layer.beta.assign(rng.normal(size=shape))
        layer.moving_mean.assign(rng.normal(size=shape))
        layer.moving_variance.assign(rng.uniform(0.5, 2, shape))
    return model


def normalize(values, layer):
    gamma, beta, mean, variance = (np.array(weight, "float64") for weight in layer.weights)
    return gamma * (values - mean) / np.sqrt(variance + layer.epsilon) + beta


def test_perceptron_computes_signs_of_sums_of_signs():
    inputs = np.random.default_rng(1).uniform(0, 255, (7, 6)).astype("float32")
    backbone = with_random_statistics(MAKERS["mlp"](input_range=(0, 255)))
    head = with_random_statistics(MAKERS["label_head"](), seed=1)
    first, second, hidden, last = linear_layers(backbone) + linear_layers(head)
    norms = get_norms(backbone) + get_norms(head)
    x = inputs / 127.5 - 1
    for index, layer in enumerate((first, second, hidden)):
        sums = (sign(x) if index else x) @ sign(np.array(layer.kernel))
        x = normalize(sums, norms[index])
        if layer is second:
            np.testing.assert_array_equal(backbone.predict(inputs, verbose=0), sign(x))
    logits = sign(x) @ np.array(last.kernel) + np.array(last.bias)
    classifier = keras.Model(backbone.input, head(backbone.output))
    np.testing.assert_allclose(classifier.predict(inputs, verbose=0), logits, rtol=1e-5, atol=1e-5)


def test_blocks_have_the_shortcuts_of_bi_real_net():
    """If no convolution contributes, the shortcuts alone compute the features."""
    backbone = with_random_statistics(networks.binary_resnet_backbone((8, 6, 1), (2, 3), blocks=1))
    widen = next(x for x in backbone.layers if getattr(x, "kernel_size", None) == (1, 1))
    first, *later_norms = get_norms(backbone)
    [last] = (norm for norm in later_norms if norm.input is widen.output)
    for layer in set(later_norms) - {last}:
        layer.gamma.assign(np.zeros(layer.gamma.shape))
        layer.beta.assign(np.zeros(layer.gamma.shape))
    inputs = np.random.default_rng(0).uniform(0, 255, (2, 8, 6, 1))
    maps = keras.Model(backbone.input, first.output).predict(inputs, verbose=0)
    means = maps.reshape(2, 4, 2, 3, 2, 2).mean(axis=(2, 4))  # 2x2 average pooling
    expected = normalize(means @ np.array(widen.kernel)[0, 0], last).mean(axis=(1, 2))
    features = backbone.predict(inputs, verbose=0)
    np.testing.assert_allclose(features, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["mlp", "lenet", "resnet"])
def test_first_layer_has_the_requested_precision(name):
    kinds = ("float", "binary_kernel", "binary")
    first, kernel, binary = (linear_layers(MAKERS[name](first_layer=kind))[0] for kind in kinds)
    assert [isinstance(layer, BINARY) for layer in (first, kernel, binary)] == [False, True, True]
    assert kernel.input_estimator is None
    assert binary.input_estimator is not None


@for_each_network
def test_hidden_layers_are_binary_or_have_relus(name):
    binary, full = MAKERS[name](), MAKERS[name](binary=False)
    is_binary = [isinstance(layer, BINARY) for layer in linear_layers(binary)]
    counts = {"mlp": (2, 0), "lenet": (1, 1), "resnet": (2, 2), "label_head": (1, 1)}
    assert (is_binary.count(True), is_binary.count(False)) == counts[name]
    assert is_binary[0] == (name in ("mlp", "label_head"))
    assert [w.shape for w in full.weights] == [w.shape for w in binary.weights]
    relus = sum(isinstance(layer, keras.layers.ReLU) for layer in full.layers)
    assert relus == {"mlp": 2, "lenet": 2, "resnet": 2, "label_head": 1}[name]
    assert not any(isinstance(layer, (*BINARY, BinarySign)) for layer in full.layers)


@for_each_network
def test_estimators_reach_every_binary_layer(name):
    estimators = {"input_estimator": "swish_sign", "kernel_estimator": "approx_sign"}
    layers = [x for x in linear_layers(MAKERS[name](**estimators)) if isinstance(x, BINARY)]
    assert layers
    assert {layer.kernel_estimator for layer in layers} == {"approx_sign"}
    assert {layer.input_estimator for layer in layers} <= {"swish_sign", None}
    binary_kernels = MAKERS[name](input_estimator=None)
    assert any(isinstance(layer, keras.layers.ReLU) for layer in binary_kernels.layers)
