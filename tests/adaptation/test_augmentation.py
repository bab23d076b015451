"""What the augmentation of one domain does to the parts of a pair."""

import keras
import numpy as np
import pytest
from support.arrays import assert_all_close, assert_all_equal

import dann
from dann.layers import RandomConvolution
from dann.networks import mlp_backbone

WORDS = np.array([[2**24 + 1, 40_001], [7, 2**24 + 3]], "int32")
IMAGES = np.arange(384).reshape(2, 8, 8, 3) % 256


@keras.saving.register_keras_serializable("tests")
class Seen(keras.layers.Layer):
    """Keeps the type of what it gets."""

    def call(self, inputs):
        self.seen = keras.backend.standardize_dtype(inputs.dtype)
        return inputs


class Difference(keras.layers.Layer):
    """The source minus the target."""

    def call(self, inputs, training=False):
        return inputs[0] - inputs[1]


def model_of(*layers, method=dann.DANN, dtype="float32", **augmentation):
    return method(
        keras.Sequential(list(layers)), num_classes=2, augmentation=augmentation, dtype=dtype
    )


def of_images(**augmentation):
    layers = keras.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(4)
    return model_of(*layers, **augmentation)


def changed(model, source, target=None):
    """The source and the target in training."""
    pair = {"source": source, "target": source if target is None else target}
    return map(keras.ops.convert_to_numpy, model.augment(pair, training=True).values())


def test_each_domain_has_its_own_layers_and_the_source_is_blended_after_them():
    numbers = np.arange(8.0, dtype="float32").reshape(2, 4)
    pair = {name: numbers + n for n, name in enumerate(("source", "target", "target_labelled"))}
    double, five = keras.layers.Rescaling(2.0), [keras.layers.Rescaling(5.0)]
    layers = {"source": double, "target": five, "blend": Difference()}
    model = dann.DANN(mlp_backbone((4,)), num_classes=2, augmentation=layers)
    found = model.augment(pair, training=True)
    wanted = 2 * numbers - 5 * (numbers + 1), 5 * (numbers + 1), 5 * (numbers + 2)
    assert_all_close(found.values(), wanted)
    assert model.augment(pair, training=False) is pair
    alone = dann.SourceOnly(mlp_backbone((4,)), 2, augmentation={"blend": Difference()})
    np.testing.assert_array_equal(alone.augment(pair, True)["source"], numbers)


@pytest.mark.parametrize("domain", ["source", "target"])
def test_the_numbers_of_words_are_not_rounded(domain):
    entry = keras.Input((2,), dtype="int32")
    layers = keras.layers.Embedding(4, 2), keras.layers.Flatten()
    model = model_of(entry, *layers, **{domain: Seen(dtype="float16")})
    found = list(changed(model, WORDS, WORDS + 2))
    assert_all_equal(found, [WORDS, WORDS + 2])
    assert {one.dtype for one in found} == {np.dtype("int32")}
    assert model.augmentation[domain].seen == "int32"


@pytest.mark.parametrize("joint_forward", [True, False])
def test_images_of_bytes_reach_a_layer_as_floats_and_others_stay_as_they_are(joint_forward):
    images = IMAGES.astype("uint8")
    model = of_images(source=[Seen(), RandomConvolution()])
    pair = {"source": images, "target": images}
    found = model.augment(pair, training=True)
    assert model.augmentation["source"].layers[0].seen == "float32"
    assert found["target"] is images
    model.joint_forward = joint_forward
    expected, seen = (
        model.extract_features(one, training=False)["target"] for one in (pair, found)
    )
    assert_all_close([keras.ops.convert_to_numpy(seen)], [keras.ops.convert_to_numpy(expected)])


@pytest.mark.parametrize("kind", ["bool", "uint16", "int64", "float64"])
def test_what_a_network_of_floats_is_given_reaches_the_layer_as_floats(kind):
    layers = [Seen(), keras.layers.Dropout(0.5, seed=1)]
    model = model_of(keras.Input((3,)), keras.layers.Dense(2), source=layers)
    numbers = (np.arange(24).reshape(8, 3) % 2).astype(kind)
    model.compile("sgd")
    model.fit({"source": numbers, "target": numbers}, np.arange(8) % 2, batch_size=4, verbose=0)
    assert model.augmentation["source"].layers[0].seen == "float32"
    found, _ = changed(model, numbers)
    assert np.all((found == 0) | (found == 2 * numbers.astype("float32")))


def test_half_precision_does_not_round_the_words_of_a_network_that_takes_floats():
    layers = keras.Input((2,)), keras.layers.Dense(2)
    model = model_of(*layers, source=Seen(), dtype="mixed_float16")
    assert_all_equal(changed(model, WORDS % 65_536), [WORDS % 65_536] * 2)
    assert model.augmentation["source"].seen == "float32"


class ReadsValues(keras.layers.RandomRotation):
    """A layer of a user's own that cannot be compiled."""

    def call(self, inputs, training=True):
        return inputs if float(keras.ops.mean(inputs)) > 10 else super().call(inputs, training)


def after_a_step(layer, **compiled):
    """A model with a layer before one domain, compiled as told, and its weights after a step."""
    keras.utils.set_random_seed(0)
    model = of_images(source=[layer()])
    model.compile(keras.optimizers.SGD(0.01), **compiled)
    images = IMAGES / np.float32(255)
    model.train_on_batch({"source": images, "target": images}, np.array([0, 1]))
    return model, [keras.ops.convert_to_numpy(weight) for weight in model.weights]


on_jax = pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="only JAX compiles image layers"
)


@on_jax
def test_jax_compiles_image_layers_that_keras_runs_eagerly():
    def layer():
        rotation = keras.layers.RandomRotation(0.2, seed=1)
        return keras.layers.Pipeline([rotation, keras.layers.RandomPerspective(seed=1)])

    compiled, found = after_a_step(layer)
    assert compiled.jit_compile is True
    _, expected = after_a_step(layer, run_eagerly=True)
    assert_all_close(found, expected, atol=1e-5)


@on_jax
@pytest.mark.parametrize("layer", [lambda: ReadsValues(0.2), keras.layers.RandAugment])
def test_what_jax_cannot_compile_still_trains_eagerly(layer):
    model, _ = after_a_step(layer)
    assert model.jit_compile is False
