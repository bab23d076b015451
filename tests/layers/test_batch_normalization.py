"""Batch normalization computes what Keras's does, by a fused operation on TensorFlow."""

import copy
import doctest
import pickle
import subprocess
import sys

import keras
import numpy as np
import pytest
from support.closed_forms import central_differences

import dann
from dann.layers import BatchNormalization

SHAPES = {"series": (6, 5, 4), "images": (6, 3, 2, 4), "volumes": (2, 3, 2, 2, 4)}
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


def compiled(layer):
    import tensorflow as tf

    return tf.function(lambda x: layer(x, training=True))


@each_shape
@pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=ARGUMENTS)
def test_a_training_step_gives_values_and_moving_statistics_of_keras(shape, arguments):
    theirs, ours = layers(shape, **arguments)
    x = numbers(shape)
    given, expected = (np.asarray(layer(x, training=True)) for layer in (ours, theirs))
    np.testing.assert_allclose(given, expected, rtol=1e-5, atol=1e-5)
    for weight, other in zip(ours.weights, theirs.weights, strict=True):
        np.testing.assert_allclose(np.asarray(weight), np.asarray(other), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(ours(x)), np.asarray(theirs(x)), rtol=1e-5, atol=1e-5)


def test_one_example_of_one_pixel_has_no_variance():
    theirs, ours = layers((1, 1, 1, 4))
    x = numbers((1, 1, 1, 4))
    np.testing.assert_allclose(ours(x, training=True), theirs(x, training=True), rtol=1e-4)
    np.testing.assert_allclose(ours.moving_variance, theirs.moving_variance, rtol=1e-6)


@on_tensorflow
@each_shape
@pytest.mark.parametrize("wrap", [lambda layer: lambda x: layer(x, training=True), compiled])
def test_gradients_are_those_of_the_formula(shape, wrap):
    import tensorflow as tf

    _, layer = layers(shape, epsilon=0.01)
    call, x, upstream = wrap(layer), tf.constant(numbers(shape)), numbers(shape, 9)
    with tf.GradientTape() as tape:
        tape.watch(x)
        outputs = call(x)
    variables = [layer.gamma.value, layer.beta.value]
    variables = [layer.gamma.value, layer.beta.value]
    given = tape.gradient(outputs, [x, *variables], output_gradients=upstream)

    def objective(*arrays):
        return np.sum(normalized(*arrays, epsilon=0.01) * upstream)

    arrays = [np.asarray(one, "float64") for one in (x, *variables)]
    for gradient, expected in zip(given, central_differences(objective, arrays), strict=True):
        np.testing.assert_allclose(gradient, expected, rtol=2e-4, atol=2e-4)


@on_tensorflow
def test_the_step_is_fused_only_where_it_can_be():
    import tensorflow as tf

    def operations(layer, x, **kwargs):
        graph = tf.function(lambda: layer(x, training=True, **kwargs)).get_concrete_function().graph
        return {op.type for op in graph.get_operations()}

    images, rows = tf.constant(numbers((6, 3, 2, 4))), tf.constant(numbers((6, 4)))
    assert "FusedBatchNormV3" in operations(BatchNormalization(), images)
    frozen = BatchNormalization(trainable=False)
    others = [
        operations(BatchNormalization(), rows),
        operations(BatchNormalization(axis=1), images),
        operations(BatchNormalization(dtype="mixed_float16"), images),
        operations(BatchNormalization(renorm=True), images),
        operations(BatchNormalization(), images, mask=tf.ones((6, 3, 2), bool)),
        operations(frozen, images),
    ]
    assert not any("FusedBatchNormV3" in found for found in others)


def classifier():
    inputs = keras.Input((4, 4, 1))
    x = keras.layers.Conv2D(3, 3)(inputs)
    x = keras.layers.Flatten()(BatchNormalization()(x))
    return keras.Model(inputs, x)


def test_a_file_of_it_loads_without_dann(tmp_path):
    model = classifier()
    x = numbers((5, 4, 4, 1))
    model(x, training=True)
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "expected.npz", x=x, y=model(x))
    program = (
        "import sys, keras, numpy as np\n"
        f"arrays = np.load({str(tmp_path / 'expected.npz')!r})\n"
        f"model = keras.saving.load_model({str(tmp_path / 'model.keras')!r})\n"
        "assert type(model.layers[2]) is keras.layers.BatchNormalization\n"
        "np.testing.assert_array_equal(model(arrays['x']), arrays['y'])\n"
        "assert 'dann' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_method_from_a_file_trains_on_with_the_same_layers(tmp_path):
    keras.utils.set_random_seed(0)
    model = dann.DANN(classifier(), num_classes=3)
    model.compile(keras.optimizers.SGD(0.1))
    rng = np.random.default_rng(0)
    data = (numbers((32, 4, 4, 1)), rng.integers(3, size=32)), numbers((32, 4, 4, 1), 1)
    model.fit(dann.data.pair(*data, batch_size=16, seed=0), verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert [type(layer) for layer in again.backbone.layers] == [
        type(layer) for layer in model.backbone.layers
    ]
    for each in (model, again):
        each.fit(dann.data.pair(*data, batch_size=16, seed=0), verbose=0)
    for weight, other in zip(model.weights, again.weights, strict=True):
        np.testing.assert_array_equal(np.asarray(weight), np.asarray(other))


@on_tensorflow
def test_the_example_of_the_docstring_runs():
    """Pytest does not find it, because the class names Keras's module."""
    [example] = doctest.DocTestFinder().find(BatchNormalization, "layer", module=False)[:1]
    found = doctest.DocTestRunner().run(example)
    assert found.attempted == 4
    assert found.failed == 0


class Doubled(keras.layers.BatchNormalization):
    """Somebody's own, not registered."""

    def call(self, inputs, training=None, mask=None):
        return 2 * super().call(inputs, training=training, mask=mask)


Doubled.__name__ = "BatchNormalization"


def test_a_class_of_the_same_name_stays_its_own(tmp_path):
    inputs = keras.Input((4, 4, 1))
    backbone = keras.Model(inputs, keras.layers.Flatten()(Doubled()(inputs)))
    dann.DANN(backbone, num_classes=3).save(tmp_path / "model.keras")
    with pytest.raises(TypeError, match="Could not locate class 'BatchNormalization'"):
        keras.saving.load_model(tmp_path / "model.keras")
    known = {"BatchNormalization": Doubled}
    again = keras.saving.load_model(tmp_path / "model.keras", custom_objects=known)
    assert type(again.backbone.layers[1]) is Doubled


def test_a_layer_is_copied_and_pickled_with_its_weights():
    _, layer = layers((6, 3, 2, 4), momentum=0.7)
    for again in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert type(again) is BatchNormalization
        assert again.get_config() == layer.get_config()
        for weight, other in zip(layer.get_weights(), again.get_weights(), strict=True):
            np.testing.assert_array_equal(weight, other)
    assert not pickle.loads(pickle.dumps(BatchNormalization())).built


def test_plain_layers_of_a_file_stay_plain(tmp_path):
    inputs = keras.Input((4, 4, 1))
    backbone = keras.Model(
        inputs, keras.layers.Flatten()(keras.layers.BatchNormalization()(inputs))
    )
    dann.DANN(backbone, num_classes=3).save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert type(again.backbone.layers[1]) is keras.layers.BatchNormalization
