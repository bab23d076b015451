"""Backbones and label heads of every kind of Keras network."""

import keras
import numpy as np
import pytest
from keras import layers
from support.arrays import assert_all_close

from dann.adaptation import DANN, MCD
from dann.data import pair

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

LABELS = np.arange(12) % 3
IMAGE = {"image": (4,), "meta": (2,)}


@keras.saving.register_keras_serializable("tests")
class SubclassedModel(keras.Model):
    """A subclassed model from one or two inputs to features."""

    def __init__(self, units=6, **kwargs):
        super().__init__(**kwargs)
        self.units, self.dense = units, layers.Dense(units, activation="relu")

    def call(self, inputs, training=False):
        if isinstance(inputs, dict):
            inputs = keras.ops.concatenate(list(inputs.values()), axis=-1)
        return self.dense(inputs)

    def get_config(self):
        return {**super().get_config(), "units": self.units}


def make_inputs(shapes, seed):
    """Returns inputs for a structure of shapes, one example per label."""
    rng = np.random.default_rng(seed)
    if isinstance(shapes, dict):
        return {name: make_inputs(shape, seed) for name, shape in shapes.items()}
    return rng.integers(0, 9, (12, *shapes)).astype("float32")


def call_once(network, shapes=(4,)):
    network(make_inputs(shapes, 0))
    return network


def sequential(*network_layers, entry=(4,), dtype="float32"):
    return keras.Sequential([keras.Input(entry, dtype=dtype), *network_layers])


def functional_with_dict_inputs():
    entry = {name: keras.Input(shape, name=name) for name, shape in IMAGE.items()}
    joined = layers.Concatenate()(list(entry.values()))
    return keras.Model(entry, layers.Dense(6, activation="relu")(joined))


BACKBONES = {
    "layer": (lambda: call_once(layers.Dense(6)), (4,)),
    "functional, dict inputs": (functional_with_dict_inputs, IMAGE),
    "subclassed": (lambda: call_once(SubclassedModel(), IMAGE), IMAGE),
}


def fit_once(model, inputs):
    model.compile(keras.optimizers.Adam(0.01), metrics=["accuracy"])
    model.fit(inputs, LABELS, batch_size=6, shuffle=False, verbose=0)
    return model


def compute_logits(model, inputs):
    return keras.ops.convert_to_numpy(model(inputs, training=False))


@pytest.mark.parametrize("name", BACKBONES)
def test_any_backbone_trains_and_reloads(name, reloaded, tmp_path):
    make, shapes = BACKBONES[name]
    inputs = {"source": make_inputs(shapes, 1), "target": make_inputs(shapes, 2)}
    model = fit_once(DANN(make(), num_classes=np.int64(3)), inputs)
    logits = compute_logits(model, inputs["target"])
    assert logits.shape == (12, 3)
    model.classifier.save(tmp_path / "classifier.keras")
    reloaded_model = reloaded(model)
    for network in (keras.models.load_model(tmp_path / "classifier.keras"), reloaded_model):
        reloaded_logits = compute_logits(network, inputs["target"])
        np.testing.assert_allclose(reloaded_logits, logits, rtol=1e-5, atol=1e-6)
    before = np.array(model.trainable_weights[0])
    for network in (model, reloaded_model):
        network.fit(inputs, LABELS, batch_size=6, shuffle=False, verbose=0)
    assert np.abs(model.trainable_weights[0] - before).max() > 0
    assert_all_close(reloaded_model.get_weights(), model.get_weights())


def test_unbuilt_backbone_is_refused():
    for backbone in (SubclassedModel(), keras.Sequential([layers.Dense(4)]), layers.Dense(4)):
        with pytest.raises(ValueError, match=r"`backbone.build\(\(None, 28, 28, 3\)\)`"):
            DANN(backbone, num_classes=3)


def test_strings_may_be_inputs(reloaded):
    words = layers.TextVectorization(vocabulary=["a", "b"], output_sequence_length=3)
    parts = words, layers.Embedding(5, 4), layers.GlobalAveragePooling1D()
    text, longer = np.array([["a b"], ["b b"], ["a"]]), np.array([["a longer text"], ["b"], ["a"]])
    network, identity = sequential(*parts, entry=(1,), dtype="string"), keras.layers.Identity()
    model = DANN(network, num_classes=3, augmentation={"source": identity})
    model.compile("sgd")
    model.fit(pair((text, LABELS[:3]), longer, 3), verbose=0)
    text = tf.constant(text)
    logits = compute_logits(model, text)
    np.testing.assert_allclose(compute_logits(reloaded(model), text), logits, rtol=1e-6)


def test_any_label_head_sets_number_of_classes():
    for head in (layers.Dense(5), SubclassedModel(units=5), keras.Sequential([layers.Dense(5)])):
        model = MCD(sequential(layers.Dense(6)), label_head=head)
        assert model.num_classes == 5
        assert model.classifier.output_shape == (None, 5)
        assert np.abs(model.second_head.get_weights()[0] - head.get_weights()[0]).max() > 0.01


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_trained_model_is_exported_to_onnx(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    images = make_inputs((4,), 1)
    model = DANN(sequential(layers.Dense(6)), num_classes=3)
    model.compile("sgd")
    model.fit(pair((images, LABELS), images, batch_size=4), epochs=1, verbose=0)
    model.export(tmp_path / "model.onnx", format="onnx", verbose=False)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    (logits,) = session.run(None, {session.get_inputs()[0].name: images})
    np.testing.assert_allclose(logits, compute_logits(model, images), rtol=1e-5, atol=1e-6)
