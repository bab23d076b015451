"""Saved and reloaded models continue training with the same bits."""

import keras
import numpy as np
import pytest
from support import torch_skips
from support.arrays import assert_all_equal

import dann
from dann.layers import DomainBlend
from dann.networks import cnn_backbone, mlp_backbone
from dann.registry import Registry

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(16, 4)).astype("float32")
IMAGES = RNG.integers(0, 255, (16, 8, 8, 1)).astype("uint8")
LABELS = np.arange(16) % 2


def with_dropout():
    layers = keras.layers.Dense(6, activation="relu"), keras.layers.Dropout(0.5)
    return dann.DANN(keras.Sequential([keras.Input((4,)), *layers]), num_classes=2)


def with_augmentation_and_blend():
    augmentation = {"source": keras.layers.RandomTranslation(0.2, 0.2), "blend": DomainBlend()}
    backbone = cnn_backbone((8, 8, 1), filters=(3,), units=4)
    return dann.DANN(backbone, num_classes=2, augmentation=augmentation)


def with_virtual_adversaries():
    regularizer = dann.VirtualAdversarial(1.0, 0.5)
    return dann.DANN(mlp_backbone((4,), (6,)), num_classes=2, regularizers=[regularizer])


def train(model, inputs, start):
    pairs = dann.data.pair((inputs, LABELS), inputs, 4, repeat=True, seed=3)
    pairs.start = start
    model.fit(pairs, steps_per_epoch=2, verbose=0)
    return [keras.ops.convert_to_numpy(v) for v in (*model.variables, *model.optimizer.variables)]


@pytest.mark.parametrize(
    ("make", "inputs"),
    [
        pytest.param(with_dropout, FEATURES, marks=torch_skips.seeded_dropout),
        (with_augmentation_and_blend, IMAGES),
        (with_virtual_adversaries, FEATURES),
    ],
)
def test_reloaded_model_trains_with_the_same_bits(make, inputs, reloaded):
    keras.utils.set_random_seed(5)
    model = make()
    model.compile(keras.optimizers.Adam(0.01), run_eagerly=True)
    train(model, inputs, 0)
    reloaded_model = reloaded(model)
    keras.utils.set_random_seed(77)  # as in a new process
    state = train(reloaded_model, inputs, 2)
    assert_all_equal(state, train(model, inputs, 2))


def test_config_contains_import_hint():
    assert with_dropout().get_config()["load_after"] == "import dann"


def test_registering_a_method_keeps_other_names():
    class DANN(dann.DANN):
        """A user's class with the same name."""

    @keras.saving.register_keras_serializable("custom")
    class RenamedDANN(dann.DANN):
        """A class registered under another name."""

    methods = Registry(register_with_keras=True)
    methods.register("namesake")(DANN)
    methods.register("custom")(RenamedDANN)
    assert keras.saving.get_registered_object("dann>DANN") is dann.DANN
    assert keras.saving.get_registered_name(RenamedDANN) == "custom>RenamedDANN"
