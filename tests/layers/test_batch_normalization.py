"""Batch normalization against Keras, with a fused operation on TensorFlow."""

import zipfile

import keras
import numpy as np
import pytest
from support.arrays import assert_all_close
from support.closed_forms import central_differences
from support.differentiate import value_and_gradients

from dann.layers import BatchNormalization
from dann.layers.batch_normalization import with_keras_batch_normalization

SHAPES = {"images": (6, 3, 2, 4), "volumes": (2, 3, 2, 2, 4)}
SHAPES["one pixel"] = (1, 1, 1, 4)  # has no variance
ARGUMENTS = [{}, {"center": False, "scale": False}, {"momentum": 0.5, "epsilon": 0.1}]
parametrize_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def draw(shape, seed=0):
    return np.random.default_rng(seed).normal(1.5, 2, shape).astype("float32")


def make_layers(shape, **kwargs):
    """Returns the layer of Keras and our layer with the same weights."""
    pair = keras.layers.BatchNormalization(**kwargs), BatchNormalization(**kwargs)
    for layer in pair:
        layer.build((None, *shape[1:]))
        for index, weight in enumerate(layer.weights):
            weight.assign(1 + np.abs(draw(weight.shape, index)))
    return pair


def normalize(x, gamma, beta, epsilon):
    """Returns the formula in NumPy."""
    axes = tuple(range(x.ndim - 1))
    mean, variance = x.mean(axes), x.var(axes)
    return gamma * (x - mean) / np.sqrt(variance + epsilon) + beta


@parametrize_shape
@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
def test_values_and_statistics_match_keras(shape, arguments):
    theirs, ours = make_layers(shape, **arguments)
    x = draw(shape)
    for training in (True, False):
        outputs, expected = (np.asarray(layer(x, training=training)) for layer in (ours, theirs))
        np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-5)
    assert_all_close(ours.get_weights(), theirs.get_weights(), 1e-5)


@pytest.mark.tensorflow
@parametrize_shape
@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_match_the_formula(shape, compiled):
    _, layer = make_layers(shape, epsilon=0.01)
    moving = [weight.value for weight in layer.non_trainable_weights]
    inputs, upstream = [draw(shape), *layer.get_weights()[:2]], draw(shape, 9)

    def call(x, *weights):
        return layer.stateless_call(weights, moving, x, training=True)[0]

    def objective(*arrays):
        return np.sum(normalize(*arrays, epsilon=0.01) * upstream)

    _, slopes = value_and_gradients(call, *inputs, upstream=upstream, compiled=compiled)
    expected = central_differences(objective, [array.astype("float64") for array in inputs])
    assert_all_close(slopes, expected, 2e-4, 2e-4)


@pytest.mark.tensorflow
def test_step_is_fused_only_if_supported():
    import tensorflow as tf

    def get_operations(layer, x, **kwargs):
        graph = tf.function(lambda: layer(x, training=True, **kwargs)).get_concrete_function().graph
        return {op.type for op in graph.get_operations()}

    images, rows = tf.constant(draw((6, 3, 2, 4))), tf.constant(draw((6, 4)))
    assert "FusedBatchNormV3" in get_operations(BatchNormalization(), images)
    unsupported = [{"axis": 1}, {"dtype": "mixed_float16"}, {"renorm": True}, {"trainable": False}]
    graphs = [get_operations(BatchNormalization(**arguments), images) for arguments in unsupported]
    graphs += [get_operations(BatchNormalization(), rows)]
    graphs += [get_operations(BatchNormalization(), images, mask=tf.ones((6, 3, 2), bool))]
    assert not any("FusedBatchNormV3" in names for names in graphs)


@pytest.mark.parametrize("nested", [False, True])
def test_network_with_keras_layers_computes_the_same(nested, tmp_path):
    inputs = keras.Input((4, 4, 1))
    x = BatchNormalization()(keras.layers.Conv2D(3, 3)(inputs))
    model = keras.Model(inputs, keras.layers.Flatten()(x))
    if nested:
        model = keras.Model(inputs, keras.layers.Dense(2)(model(inputs)))
    x = draw((5, 4, 4, 1))
    for _ in range(2):
        model(x, training=True)  # updates the statistics
    plain = with_keras_batch_normalization(model)
    plain.save(tmp_path / "model.keras")
    with zipfile.ZipFile(tmp_path / "model.keras") as archive:
        assert "dann" not in archive.read("config.json").decode()
    for network in (plain, keras.saving.load_model(tmp_path / "model.keras")):
        np.testing.assert_array_equal(np.asarray(network(x)), np.asarray(model(x)))
    assert plain.layers[1] is model.layers[1] or nested  # other layers are shared
    assert with_keras_batch_normalization(plain) is plain
