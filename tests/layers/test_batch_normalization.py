"""Batch normalization computes what Keras's does, by a fused operation on TensorFlow."""

import zipfile

import keras
import numpy as np
import pytest
from support.arrays import assert_all_close
from support.closed_forms import central_differences
from support.differentiate import value_and_gradients

from dann.layers import BatchNormalization, with_keras_batch_normalization

SHAPES = {"series": (6, 5, 4), "images": (6, 3, 2, 4), "volumes": (2, 3, 2, 2, 4)}
SHAPES["one pixel"] = (1, 1, 1, 4)  # which has no variance
ARGUMENTS = {
    "default": {},
    "plain": {"center": False, "scale": False},
    "epsilon": {"momentum": 0.5, "epsilon": 0.1},
}
each_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
on_tensorflow = pytest.mark.tensorflow


def numbers(shape, seed=0):
    return np.random.default_rng(seed).normal(1.5, 2, shape).astype("float32")


def layers(shape, **kwargs):
    """Keras's layer and ours, with the same weights."""
    pair = keras.layers.BatchNormalization(**kwargs), BatchNormalization(**kwargs)
    for layer in pair:
        layer.build((None, *shape[1:]))
        for place, weight in enumerate(layer.weights):
            weight.assign(1 + np.abs(numbers(weight.shape, place)))
    return pair


def normalized(x, gamma, beta, epsilon):
    """The formula, by NumPy in double precision."""
    axes = tuple(range(x.ndim - 1))
    mean, variance = x.mean(axes), x.var(axes)
    return gamma * (x - mean) / np.sqrt(variance + epsilon) + beta


@each_shape
@pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=ARGUMENTS)
def test_a_training_step_gives_values_and_moving_statistics_of_keras(shape, arguments):
    theirs, ours = layers(shape, **arguments)
    x = numbers(shape)
    for training in (True, False):
        given, expected = (np.asarray(layer(x, training=training)) for layer in (ours, theirs))
        np.testing.assert_allclose(given, expected, rtol=1e-5, atol=1e-5)
    assert_all_close(ours.get_weights(), theirs.get_weights(), 1e-5)


@on_tensorflow
@each_shape
@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_are_those_of_the_formula(shape, compiled):
    _, layer = layers(shape, epsilon=0.01)
    moving = [weight.value for weight in layer.non_trainable_weights]
    inputs, upstream = [numbers(shape), *layer.get_weights()[:2]], numbers(shape, 9)

    def call(x, *weights):
        return layer.stateless_call(weights, moving, x, training=True)[0]

    def objective(*arrays):
        return np.sum(normalized(*arrays, epsilon=0.01) * upstream)

    _, given = value_and_gradients(call, *inputs, upstream=upstream, compiled=compiled)
    expected = central_differences(objective, [one.astype("float64") for one in inputs])
    assert_all_close(given, expected, 2e-4, 2e-4)


@on_tensorflow
def test_the_step_is_fused_only_where_it_can_be():
    import tensorflow as tf

    def operations(layer, x, **kwargs):
        graph = tf.function(lambda: layer(x, training=True, **kwargs)).get_concrete_function().graph
        return {op.type for op in graph.get_operations()}

    images, rows = tf.constant(numbers((6, 3, 2, 4))), tf.constant(numbers((6, 4)))
    assert "FusedBatchNormV3" in operations(BatchNormalization(), images)
    others = [{"axis": 1}, {"dtype": "mixed_float16"}, {"renorm": True}, {"trainable": False}]
    found = [operations(BatchNormalization(**arguments), images) for arguments in others]
    found += [operations(BatchNormalization(), rows)]
    found += [operations(BatchNormalization(), images, mask=tf.ones((6, 3, 2), bool))]
    assert not any("FusedBatchNormV3" in names for names in found)


@pytest.mark.parametrize("nested", [False, True])
def test_a_network_with_keras_layers_in_its_place_computes_the_same(nested, tmp_path):
    inputs = keras.Input((4, 4, 1))
    x = BatchNormalization()(keras.layers.Conv2D(3, 3)(inputs))
    model = keras.Model(inputs, keras.layers.Flatten()(x))
    if nested:
        model = keras.Model(inputs, keras.layers.Dense(2)(model(inputs)))
    x = numbers((5, 4, 4, 1))
    for _ in range(2):
        model(x, training=True)  # moves the statistics
    plain = with_keras_batch_normalization(model)
    plain.save(tmp_path / "model.keras")
    with zipfile.ZipFile(tmp_path / "model.keras") as archive:
        assert "dann" not in archive.read("config.json").decode()
    for again in (plain, keras.saving.load_model(tmp_path / "model.keras")):
        np.testing.assert_array_equal(np.asarray(again(x)), np.asarray(model(x)))
    assert plain.layers[1] is model.layers[1] or nested  # what stays is shared
    assert with_keras_batch_normalization(plain) is plain
