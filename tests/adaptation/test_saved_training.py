"""A model that is saved, loaded and trained on ends with the bits of one that was never saved."""

import keras
import numpy as np
import pytest

import dann
from dann.adaptation.training_state import put_trained_back
from dann.layers import DomainBlend
from dann.networks import cnn_backbone, mlp_backbone

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(16, 4)).astype("float32")
IMAGES = RNG.integers(0, 255, (16, 8, 8, 1)).astype("uint8")
LABELS = np.arange(16) % 2


def with_dropout():
    entry = keras.Input((4,))
    hidden = keras.layers.Dropout(0.5)(keras.layers.Dense(6, activation="relu")(entry))
    return dann.DANN(keras.Model(entry, hidden), num_classes=2)


def with_augmentation_and_blend():
    augmentation = {"source": keras.layers.RandomTranslation(0.2, 0.2), "blend": DomainBlend()}
    backbone = cnn_backbone((8, 8, 1), filters=(3,), units=4)
    return dann.DANN(backbone, num_classes=2, augmentation=augmentation)


def with_virtual_adversaries():
    return dann.DANN(
        mlp_backbone((4,), (6,)), num_classes=2, regularizers=[dann.VirtualAdversarial(1.0, 0.5)]
    )


MODELS = {
    "dropout": (with_dropout, FEATURES, {}),
    "augmentation and blend": (with_augmentation_and_blend, IMAGES, {}),
    "virtual adversaries": (with_virtual_adversaries, FEATURES, {}),
    "averages": (with_dropout, FEATURES, {"use_ema": True, "ema_momentum": 0.9}),
}


def started(name):
    keras.utils.set_random_seed(5)
    build, x, options = MODELS[name]
    model = build()
    model.compile(keras.optimizers.Adam(0.01, **options))
    return model, dann.data.pair((x, LABELS), x, 4, repeat=True, seed=3)


def trained(model, pairs, first, last):
    pairs.start = 2 * first
    epochs = {"initial_epoch": first, "epochs": last}
    model.fit(pairs, steps_per_epoch=2, verbose=0, **epochs)
    return model


def bits(model):
    return [keras.ops.convert_to_numpy(v) for v in (*model.variables, *model.optimizer.variables)]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_was_saved_in_between_trains_as_if_it_was_not(name, tmp_path):
    whole = trained(*started(name), 0, 3)
    model, pairs = started(name)
    trained(model, pairs, 0, 1).save(tmp_path / "model.keras")
    keras.utils.set_random_seed(77)  # as in another process
    loaded = keras.models.load_model(tmp_path / "model.keras")
    trained(loaded, pairs, 1, 3)
    for one, other in zip(bits(whole), bits(loaded), strict=True):
        np.testing.assert_array_equal(one, other)


def test_weights_that_were_set_after_averaging_are_those_that_train():
    model, pairs = started("averages")
    trained(model, pairs, 0, 1)
    model.set_weights([np.full_like(weight, 0.5) for weight in model.get_weights()])
    put_trained_back(model)
    for weight in model.trainable_variables:
        np.testing.assert_array_equal(weight, 0.5)


def test_a_file_without_the_seeds_still_loads(tmp_path, monkeypatch):
    from dann.adaptation import pair_classifier

    monkeypatch.setattr(pair_classifier, "save_training_state", lambda *_: None)
    model, _ = started("dropout")
    model.save(tmp_path / "old.keras")
    loaded = keras.models.load_model(tmp_path / "old.keras")
    np.testing.assert_array_equal(loaded.predict(FEATURES), model.predict(FEATURES))
