"""Whatever maps inputs to features may be a backbone, whatever maps features to logits a head."""

import keras
import numpy as np
import pytest
from keras import layers
from support.arrays import assert_all_close

from dann.adaptation import DANN, DIRTT, MCD
from dann.data import pair

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

LABELS = np.arange(12) % 3
IMAGE, TWO = {"image": (4,), "meta": (2,)}, [(4,), (2,)]


@keras.saving.register_keras_serializable("tests")
class Join(layers.Layer):
    """Two inputs, in a dict or a list, side by side."""

    def call(self, inputs):
        parts = inputs.values() if isinstance(inputs, dict) else inputs
        return keras.ops.concatenate(list(parts), axis=-1)

    def compute_output_shape(self, input_shape):
        return (None, 6)


@keras.saving.register_keras_serializable("tests")
class OwnModel(keras.Model):
    """A subclassed model from one or two inputs to features."""

    def __init__(self, several=False, units=6, **kwargs):
        super().__init__(**kwargs)
        self.several, self.units = several, units
        self.parts = [*([Join()] if several else []), layers.Dense(units, activation="relu")]

    def call(self, inputs, training=False):
        for part in self.parts:
            inputs = part(inputs)
        return inputs

    def get_config(self):
        return {**super().get_config(), "several": self.several, "units": self.units}


def drawn(shapes, seed):
    """Inputs of a structure of shapes, as many as there are labels."""
    rng = np.random.default_rng(seed)
    if isinstance(shapes, dict):
        return {name: drawn(shape, seed) for name, shape in shapes.items()}
    if isinstance(shapes, list):
        return [drawn(shape, seed) for shape in shapes]
    return rng.integers(0, 9, (12, *shapes)).astype("float32")


def called(network, shapes=(4,)):
    network(drawn(shapes, 0))
    return network


def sequential(*its, entry=(4,), dtype="float32"):
    return keras.Sequential([keras.Input(entry, dtype=dtype), *its])


def functional_of_a_dict():
    entry = {name: keras.Input(shape, name=name) for name, shape in IMAGE.items()}
    return keras.Model(entry, layers.Dense(6, activation="relu")(Join()(entry)))


def application():
    options = {"include_top": False, "weights": None, "pooling": "avg", "alpha": 0.25}
    return keras.applications.MobileNet((32, 32, 3), **options)


BACKBONES = {
    "a layer": (lambda: called(layers.Dense(6)), (4,)),
    "recurrent, of words": (
        lambda: sequential(layers.Embedding(9, 4), layers.GRU(6), entry=(5,), dtype="int32"),
        (5,),
    ),
    "functional, of a dict": (functional_of_a_dict, IMAGE),
    "subclassed": (lambda: called(OwnModel()), (4,)),
    "subclassed, of a dict": (lambda: called(OwnModel(several=True), IMAGE), IMAGE),
    "subclassed, of a list": (lambda: called(OwnModel(several=True), TWO), TWO),
    "keras.applications": (application, (32, 32, 3)),
}


def fitted(model, inputs):
    model.compile(keras.optimizers.Adam(0.01), metrics=["accuracy"])
    model.fit(inputs, LABELS, batch_size=6, shuffle=False, verbose=0)
    return model


def logits_of(model, inputs):
    return keras.ops.convert_to_numpy(model(inputs, training=False))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.slow) if n == "keras.applications" else n
        for n in BACKBONES
    ],
)
def test_a_backbone_of_any_kind_trains_comes_back_and_trains_on_as_before(name, reloaded, tmp_path):
    make, shapes = BACKBONES[name]
    inputs = {"source": drawn(shapes, 1), "target": drawn(shapes, 2)}
    model = fitted(DANN(make(), num_classes=3), inputs)
    logits = logits_of(model, inputs["target"])
    assert logits.shape == (12, 3)
    model.classifier.save(tmp_path / "classifier.keras")
    again = reloaded(model)
    for one in (keras.models.load_model(tmp_path / "classifier.keras"), again):
        found = logits_of(one, inputs["target"])
        np.testing.assert_allclose(found, logits, rtol=1e-5, atol=1e-6)
    before = np.array(model.trainable_weights[0])
    for one in (model, again):
        one.fit(inputs, LABELS, batch_size=6, shuffle=False, verbose=0)
    assert np.abs(model.trainable_weights[0] - before).max() > 0
    assert_all_close(again.get_weights(), model.get_weights())


def test_a_backbone_that_is_not_built_is_refused_with_the_line_to_write():
    for backbone in (OwnModel(), keras.Sequential([layers.Dense(4)]), layers.Dense(4)):
        with pytest.raises(ValueError, match=r"`backbone.build\(\(None, 28, 28, 3\)\)`"):
            DANN(backbone, num_classes=3)


def test_strings_are_inputs_like_any_other(reloaded):
    words = layers.TextVectorization(vocabulary=["a", "b"], output_sequence_length=3)
    parts = words, layers.Embedding(5, 4), layers.GlobalAveragePooling1D()
    text, longer = np.array([["a b"], ["b b"], ["a"]]), np.array([["a longer text"], ["b"], ["a"]])
    network, identity = sequential(*parts, entry=(1,), dtype="string"), keras.layers.Identity()
    model = DANN(network, num_classes=3, augmentation={"source": identity})
    model.compile("sgd")
    model.fit(pair((text, LABELS[:3]), longer, 3), verbose=0)
    text = tf.constant(text)
    np.testing.assert_allclose(logits_of(reloaded(model), text), logits_of(model, text), rtol=1e-6)


def test_a_label_head_of_any_kind_sets_the_number_of_classes():
    for head in (layers.Dense(5), OwnModel(units=5), keras.Sequential([layers.Dense(5)])):
        model = MCD(sequential(layers.Dense(6)), label_head=head)
        assert model.num_classes == 5
        assert model.classifier.output_shape == (None, 5)
        assert np.abs(model.second_head.get_weights()[0] - head.get_weights()[0]).max() > 0.01


def test_a_second_stage_continues_a_subclassed_network():
    inputs = drawn((4,), 1)
    first = DANN(called(OwnModel()), num_classes=3)
    second = DIRTT.from_model(first, radius=0.5)
    np.testing.assert_allclose(logits_of(second, inputs), logits_of(first, inputs), rtol=1e-5)
    assert second.backbone is not first.backbone


def test_a_model_exports_its_classifier(tmp_path):
    inputs = drawn(IMAGE, 1)
    model = DANN(functional_of_a_dict(), num_classes=3)
    model({"source": inputs, "target": inputs})
    model.export(tmp_path / "exported", verbose=False)
    exported = tf.saved_model.load(str(tmp_path / "exported"))
    np.testing.assert_allclose(
        exported.serve(inputs), logits_of(model, inputs), rtol=1e-5, atol=1e-6
    )
