"""What the augmentation of one domain does to the parts of a pair."""

import keras
import numpy as np
import pytest

import dann
from dann.layers import RandomConvolution

WORDS = np.array([[2**24 + 1, 40_001], [7, 2**24 + 3]], "int32")


@keras.saving.register_keras_serializable("tests")
class Seen(keras.layers.Layer):
    """Keeps the type of what it gets."""

    def call(self, inputs):
        self.seen = keras.backend.standardize_dtype(inputs.dtype)
        return inputs


def model_of(backbone, **augmentation):
    return dann.DANN(backbone, num_classes=2, augmentation=augmentation)


def of_words():
    entry = keras.Input((2,), dtype="int32")
    features = keras.layers.Lambda(lambda words: keras.ops.cast(words, "float32"))(entry)
    return keras.Model(entry, keras.layers.Dense(2)(features))


@pytest.mark.parametrize("with_layer", ["source", "target"])
def test_the_numbers_of_words_are_not_rounded(with_layer):
    model = model_of(of_words(), **{with_layer: Seen(dtype="float16")})
    changed = model.augment({"source": WORDS, "target": WORDS + 2}, training=True)
    for name, expected in (("source", WORDS), ("target", WORDS + 2)):
        found = keras.ops.convert_to_numpy(changed[name])
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, expected)
    assert model.augmentation[with_layer].seen == "int32"


@pytest.mark.tensorflow
def test_strings_stay_strings():
    import tensorflow as tf

    texts = tf.constant([["a"], ["b c"]])
    entry = keras.Input((1,), dtype="string")
    lookup = keras.layers.StringLookup(vocabulary=["a", "b c"], output_mode="one_hot")
    model = model_of(keras.Model(entry, keras.layers.Dense(2)(lookup(entry))), source=Seen())
    changed = model.augment({"source": texts, "target": texts}, training=True)
    assert [part.dtype for part in changed.values()] == [tf.string, tf.string]
    model.compile("sgd")
    model.train_on_batch({"source": texts, "target": texts}, np.array([0, 1]))


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_images_reach_a_layer_as_floats_and_others_stay_as_they_are(dtype):
    entry = keras.Input((8, 8, 1))
    backbone = keras.Model(entry, keras.layers.Dense(4)(keras.layers.Flatten()(entry)))
    model = model_of(backbone, source=[Seen(), RandomConvolution()])
    images = np.arange(128).reshape(2, 8, 8, 1).astype(dtype)
    pair = {"source": images, "target": images}
    changed = model.augment(pair, training=True)
    assert model.augmentation["source"].layers[0].seen == "float32"
    assert changed["target"] is images
    plain, apart = (
        dann.DANN(backbone, label_head=model.label_head, passes=passes)
        for passes in ("joint", "separate")
    )
    expected = keras.ops.convert_to_numpy(plain.extract(pair, False)["target"])
    for one in (plain, apart):
        found = keras.ops.convert_to_numpy(one.extract(changed, False)["target"])
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["bool", "uint16", "int64", "float64"])
@pytest.mark.parametrize("passes", ["joint", "separate"])
def test_what_a_network_of_floats_is_given_reaches_the_layer_as_floats(kind, passes):
    backbone = dann.networks.mlp_backbone((3,), hidden_units=(2,))
    layers = [Seen(), keras.layers.Dropout(0.5, seed=1)]
    model = dann.DANN(backbone, num_classes=2, passes=passes, augmentation={"source": layers})
    numbers = (np.arange(24).reshape(8, 3) % 2).astype(kind)
    model.compile("sgd")
    model.fit({"source": numbers, "target": numbers}, np.arange(8) % 2, batch_size=4, verbose=0)
    assert model.augmentation["source"].layers[0].seen == "float32"
    changed = model.augment({"source": numbers, "target": numbers}, training=True)
    found = keras.ops.convert_to_numpy(changed["source"])
    assert np.all((found == 0) | (found == 2 * numbers.astype("float32")))


def test_half_precision_does_not_round_the_words_of_a_network_that_takes_floats():
    backbone = dann.networks.mlp_backbone((2,), hidden_units=(2,))
    layers = {"source": Seen()}
    model = dann.DANN(backbone, num_classes=2, augmentation=layers, dtype="mixed_float16")
    words = WORDS % 65_536
    changed = model.augment({"source": words, "target": words}, training=True)
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(changed["source"]), words)
    assert layers["source"].seen == "float32"


def after_a_step(layer, images, **compiled):
    """A model with a layer before one domain, compiled as told, and its weights after a step."""
    keras.utils.set_random_seed(0)
    backbone = keras.Sequential(
        [keras.Input(images.shape[1:]), keras.layers.Flatten(), keras.layers.Dense(3)]
    )
    model = model_of(backbone, source=[layer()])
    model.compile(keras.optimizers.SGD(0.01), **compiled)
    model.train_on_batch({"source": images, "target": images}, np.array([0, 1, 1, 0]))
    return model, np.concatenate([keras.ops.convert_to_numpy(w).ravel() for w in model.weights])


class ReadsValues(keras.layers.RandomRotation):
    """A layer of a user's own that cannot be compiled."""

    def call(self, inputs, training=True):
        return inputs if float(keras.ops.mean(inputs)) > 10 else super().call(inputs, training)


on_jax = pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="only JAX compiles image layers"
)


@on_jax
@pytest.mark.parametrize(
    "layer",
    [
        lambda: keras.layers.RandomPerspective(seed=1),
        lambda: keras.layers.RandomZoom(0.3, seed=1),
        lambda: keras.layers.Pipeline(
            [
                keras.layers.RandomRotation(0.2, seed=1),
                keras.layers.RandomShear(0.3, 0.3, seed=1),
                keras.layers.RandomTranslation(0.2, 0.2, seed=1),
            ]
        ),
    ],
)
def test_jax_compiles_image_layers_that_keras_runs_eagerly(layer):
    images = np.random.default_rng(0).random((4, 8, 8, 1)).astype("float32")
    compiled, found = after_a_step(layer, images)
    assert compiled.jit_compile is True
    _, expected = after_a_step(layer, images, run_eagerly=True)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    _, other = after_a_step(RandomConvolution, images)
    assert np.abs(other - expected).max() > 1e-3


@on_jax
@pytest.mark.parametrize(
    "layer",
    [
        lambda: ReadsValues(0.2),
        keras.layers.RandAugment,
        keras.layers.AugMix,
    ],
)
def test_what_jax_cannot_compile_still_trains_eagerly(layer):
    images = np.random.default_rng(0).random((4, 8, 8, 3)).astype("float32")
    model, _ = after_a_step(layer, images)
    assert model.jit_compile is False
