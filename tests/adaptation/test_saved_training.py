"""A model that is saved, loaded and trained on ends with the bits of one that was never saved."""

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
    joining = dann.VirtualAdversarial(1.0, 0.5)
    return dann.DANN(mlp_backbone((4,), (6,)), num_classes=2, regularizers=[joining])


def trained(model, inputs, start):
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
def test_a_model_that_was_saved_in_between_trains_as_if_it_was_not(make, inputs, reloaded):
    keras.utils.set_random_seed(5)
    model = make()
    model.compile(keras.optimizers.Adam(0.01), run_eagerly=True)
    trained(model, inputs, 0)
    again = reloaded(model)
    keras.utils.set_random_seed(77)  # as in another process
    found = trained(again, inputs, 2)
    assert_all_equal(found, trained(model, inputs, 2))


def test_the_config_says_what_to_import_where_keras_does_not_find_the_class():
    assert with_dropout().get_config()["load_after"] == "import dann"


def test_a_text_in_a_config_is_not_taken_for_a_custom_object(tmp_path):
    model = dann.DANN(mlp_backbone((4,), (6,)), num_classes=2, name="turned")
    model.save(tmp_path / "a.keras")
    again = keras.models.load_model(tmp_path / "a.keras", custom_objects={"turned": abs})
    assert again.name == "turned"


def test_registering_a_method_takes_no_name_from_another():
    class DANN(dann.DANN):
        """A user's namesake."""

    @keras.saving.register_keras_serializable("mine")
    class Mine(dann.DANN):
        """Registered under a name of its own."""

    methods = Registry(saved=True)
    methods.register("namesake")(DANN)
    methods.register("mine")(Mine)
    assert keras.saving.get_registered_object("dann>DANN") is dann.DANN
    assert keras.saving.get_registered_name(Mine) == "mine>Mine"
