"""Whatever maps inputs to features may be a backbone, whatever maps features to logits a head."""

import keras
import numpy as np
import pytest
from keras import layers
from toy_backbones import BACKBONES, INPUTS, LABELS, OwnModel, called

from dann.adaptation import DANN, DIRTT, MCD

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

BOTH = {
    kind: {name: INPUTS[kind](seed) for seed, name in enumerate(("source", "target"))}
    for kind in INPUTS
}
NUMBERS, NAMED = BOTH["numbers"], BOTH["dict"]
BACKBONES = BACKBONES | {"a Dense layer": lambda kind, folder: called(layers.Dense(6), kind)}
KINDS = [
    *(
        (name, "numbers")
        for name in BACKBONES
        if name not in ("functional", "a layer", "keras.applications", "a layer without weights")
    ),
    *(("functional", "dict"), ("subclassed", "dict"), ("subclassed", "list")),
    ("recurrent", "tokens"),
    pytest.param("keras.applications", "images", marks=pytest.mark.slow),
]


def fitted(model, inputs):
    model.compile(keras.optimizers.Adam(0.01), metrics=["accuracy"])
    model.fit(inputs, LABELS, batch_size=6, shuffle=False, verbose=0)
    return model


def logits_of(model, inputs):
    return keras.ops.convert_to_numpy(model(inputs["target"], training=False))


@pytest.mark.parametrize(("backbone", "kind"), KINDS)
def test_a_backbone_of_any_kind_trains_comes_back_and_trains_on_as_before(
    backbone, kind, reloaded, tmp_path
):
    inputs = BOTH[kind]
    model = fitted(DANN(BACKBONES[backbone](kind, tmp_path), num_classes=3), inputs)
    logits = logits_of(model, inputs)
    assert logits.shape == (12, 3)
    model.classifier.save(tmp_path / "classifier.keras")
    alone = keras.models.load_model(tmp_path / "classifier.keras")
    np.testing.assert_allclose(logits_of(alone, inputs), logits, rtol=1e-5, atol=1e-6)
    again = reloaded(model)
    np.testing.assert_allclose(logits_of(again, inputs), logits, rtol=1e-5, atol=1e-6)
    before = np.array(model.trainable_weights[0])
    for one in (model, again):
        one.fit(inputs, LABELS, batch_size=6, shuffle=False, verbose=0)
    assert np.abs(model.trainable_weights[0] - before).max() > 0
    for one, other in zip(model.trainable_weights, again.trainable_weights, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=1e-6)


def test_a_backbone_that_is_not_built_is_refused_with_the_line_to_write():
    for backbone in (OwnModel(), keras.Sequential([layers.Dense(4)]), layers.Dense(4)):
        with pytest.raises(ValueError, match=r"`backbone.build\(\(None, 28, 28, 3\)\)`"):
            DANN(backbone, num_classes=3)


def test_strings_are_inputs_like_any_other(reloaded):
    words = layers.TextVectorization(vocabulary=["a", "b"], output_sequence_length=3)
    entry = keras.Input((1,), dtype="string")
    parts = [entry, words, layers.Embedding(5, 4), layers.GlobalAveragePooling1D()]
    text = {name: tf.constant([["a b"], ["b b"], ["a"]]) for name in ("source", "target")}
    model = DANN(keras.Sequential(parts), num_classes=3)
    model.compile("sgd")
    model.fit(text, LABELS[:3], verbose=0)
    again = reloaded(model)
    np.testing.assert_allclose(logits_of(again, text), logits_of(model, text), rtol=1e-6)


def test_a_label_head_of_any_kind_sets_the_number_of_classes():
    backbone = keras.Sequential([keras.Input((4,)), layers.Dense(6)])
    for head in (layers.Dense(5), OwnModel(units=5), keras.Sequential([layers.Dense(5)])):
        model = MCD(backbone, label_head=head)
        assert model.num_classes == 5
        assert model.classifier.output_shape == (None, 5)
        assert np.abs(model.second_head.get_weights()[0] - head.get_weights()[0]).max() > 0.01


def test_a_second_stage_continues_a_subclassed_network():
    first = fitted(DANN(called(OwnModel("numbers"), "numbers"), num_classes=3), NUMBERS)
    second = DIRTT.from_model(first, radius=0.5)
    np.testing.assert_allclose(logits_of(second, NUMBERS), logits_of(first, NUMBERS), rtol=1e-5)
    assert second.backbone is not first.backbone


def test_a_model_exports_its_classifier(tmp_path):
    model = fitted(DANN(BACKBONES["functional"]("dict", None), num_classes=3), NAMED)
    model.export(tmp_path / "exported", verbose=False)
    artifact = tf.saved_model.load(str(tmp_path / "exported"))
    found = artifact.serve(NAMED["target"])
    np.testing.assert_allclose(found, logits_of(model, NAMED), rtol=1e-5, atol=1e-6)
