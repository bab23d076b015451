"""Inputs of strings, from the pair of domains to the scores."""

import keras
import numpy as np
import pytest

import dann
from dann.adaptation.prediction import predict
from dann.data import arrays
from dann.selection import SCORES, compute_scores

WORDS = np.array([["good", "fine"], ["bad", "awful"]])
LABELS = np.arange(80) % 2
RNG = np.random.default_rng(0)
TEXTS = np.array([f"{WORDS[y][i % 2]} {RNG.integers(9)}" for i, y in enumerate(LABELS)])
TARGET = np.char.add(TEXTS, " too")
tensorflow = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    words = keras.layers.TextVectorization(max_tokens=20, output_mode="multi_hot")
    words.adapt(TEXTS.astype(object))
    inputs = keras.Input((), dtype="string")
    features = keras.layers.Dense(8, activation="relu")(words(inputs))
    model = dann.DANN(keras.Model(inputs, features), num_classes=2, strength=0.1)
    model.compile(keras.optimizers.Adam(0.02), metrics=["accuracy"])
    return model


@pytest.mark.parametrize("dtype", ["U", object, np.dtypes.StringDType()], ids=str)
def test_strings_become_objects(dtype):
    domains = arrays((TEXTS.astype(dtype), LABELS), (TARGET.astype(dtype), LABELS))
    assert domains.input_shape == ()
    for part in (domains.source_train[0], domains.target_train, domains.target_test[0]):
        assert part.dtype == object
        assert all(type(text) is str for text in part)
    oracle = domains.oracle()
    np.testing.assert_array_equal(oracle.source_train[0], domains.target_train)


@tensorflow
def test_text_model_trains_predicts_and_is_scored(model):
    domains = arrays((TEXTS, LABELS), (TARGET, LABELS))
    for pair in (domains, domains.oracle()):
        model.fit(pair.batches(16, 0), steps_per_epoch=40, verbose=0)
        inputs, labels = domains.target_test
        logits = model.predict(inputs, verbose=0)
        np.testing.assert_array_equal(logits.argmax(axis=1), labels)
        for data in ((inputs, labels), (domains.test_batches("target", 7),)):
            assert model.evaluate(*data, return_dict=True, verbose=0)["accuracy"] == 1
        predictions = predict(model.classifier, inputs)
        np.testing.assert_allclose(predictions, logits, rtol=1e-5, atol=1e-6)
        scores = compute_scores(model, source=domains.source_test, target=domains.target_train)
        assert scores.keys() == set(SCORES) - {"mix_val"}
        assert scores["source_accuracy"] == 1
        assert np.isfinite(list(scores.values())).all()
