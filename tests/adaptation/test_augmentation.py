"""Augmentation of the parts of a pair."""

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
class RecordDtype(keras.layers.Layer):
    """Records the dtype of its inputs."""

    def call(self, inputs):
        self.received_dtype = keras.backend.standardize_dtype(inputs.dtype)
        return inputs


def make_model(*layers, **augmentation):
    return dann.DANN(keras.Sequential(list(layers)), num_classes=2, augmentation=augmentation)


def test_each_domain_has_layers_and_blend_runs_last():
    values = np.arange(8.0, dtype="float32").reshape(2, 4)
    pair = {name: values + n for n, name in enumerate(("source", "target", "target_labeled"))}
    double, five = keras.layers.Rescaling(2.0), [keras.layers.Rescaling(5.0)]
    layers = {"source": double, "target": five, "blend": keras.layers.Subtract()}
    model = dann.DANN(mlp_backbone((4,)), num_classes=2, augmentation=layers)
    augmented = model.augment(pair, training=True)
    expected = 2 * values - 5 * (values + 1), 5 * (values + 1), 5 * (values + 2)
    assert_all_close(augmented.values(), expected)
    assert_all_close(model(pair, training=True).inputs.values(), expected)
    assert_all_close(model(pair).inputs.values(), pair.values())
    assert model.augment(pair, training=False) is pair
    source_only = dann.SourceOnly(mlp_backbone((4,)), 2, augmentation={"blend": layers["blend"]})
    np.testing.assert_array_equal(source_only.augment(pair, True)["source"], values)


@pytest.mark.parametrize("domain", ["source", "target"])
def test_word_indices_are_not_rounded(domain):
    entry = keras.Input((2,), dtype="int32")
    layers = keras.layers.Embedding(4, 2), keras.layers.Flatten()
    model = make_model(entry, *layers, **{domain: RecordDtype(dtype="float16")})
    pair = model.augment({"source": WORDS, "target": WORDS + 2}, training=True)
    augmented = [keras.ops.convert_to_numpy(part) for part in pair.values()]
    assert_all_equal(augmented, [WORDS, WORDS + 2])
    assert {part.dtype for part in augmented} == {np.dtype("int32")}
    assert model.augmentation[domain].received_dtype == "int32"


@pytest.mark.parametrize("joint_forward", [True, False])
def test_byte_images_become_floats_only_for_layers(joint_forward):
    images = IMAGES.astype("uint8")
    layers = keras.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(4)
    model = make_model(*layers, source=[RecordDtype(), RandomConvolution()])
    pair = {"source": images, "target": images}
    augmented = model.augment(pair, training=True)
    assert model.augmentation["source"].layers[0].received_dtype == "float32"
    assert augmented["target"] is images
    model.joint_forward = joint_forward
    expected, features = (
        keras.ops.convert_to_numpy(model.extract_features(inputs, training=False)["target"])
        for inputs in (pair, augmented)
    )
    assert_all_close([features], [expected])
