"""Outputs outside of a training step, and data frames with columns in another order."""

import dataclasses
import gc

import keras
import numpy as np
import pandas
import pytest
from support.arrays import LABELS, SOURCE, TARGET, assert_all_equal
from support.networks import linear

import dann
from dann.adaptation import DANN, SourceOnly, prediction
from dann.adaptation.prediction import predict
from dann.diagnostics import certify, check, feature_distance, gradient_conflict, leakage
from dann.selection import compute_outputs

X = np.random.default_rng(0).normal(size=(10, 3)).astype("float32")


def build_network():
    layers = [keras.Input((3,)), keras.layers.Dense(4), keras.layers.BatchNormalization()]
    return keras.Sequential(layers)


@pytest.mark.parametrize("batch_size", [1, 256], ids=["compiled", "eager"])
def test_outputs_follow_the_current_weights(batch_size):
    network = build_network()
    for factor in (1, 2):
        network.set_weights([factor * weight for weight in network.get_weights()])
        expected = keras.ops.convert_to_numpy(network(X, training=False))
        np.testing.assert_allclose(predict(network, X, batch_size), expected, rtol=1e-5, atol=1e-6)


def test_compiled_function_lives_as_long_as_its_network():
    gc.collect()
    before = len(prediction._COMPILED)
    network = build_network()
    predict(network, X, batch_size=1)
    assert len(prediction._COMPILED) == before + 1
    del network
    gc.collect()
    assert len(prediction._COMPILED) == before


FRAME, TARGET_FRAME = (pandas.DataFrame(x, columns=list("abc")) for x in (SOURCE, TARGET))
SERIES = pandas.Series(LABELS)
SWAPPED = FRAME[list("cba")]
PAIR = {"source": FRAME, "target": TARGET_FRAME}
PAIRS = dann.data.pair((FRAME, LABELS), TARGET_FRAME)
TESTS = (FRAME + 1, LABELS), TARGET_FRAME + 1
DOMAINS = dann.data.arrays((FRAME, LABELS), TARGET_FRAME, *TESTS)
SWAPPED_TESTS = dataclasses.replace(DOMAINS, columns=list("cba")).test_batches("target", 4)
SWAPPED_PAIRS = dann.data.pair((SWAPPED, LABELS), TARGET_FRAME[list("cba")])
WORDS = r"\['a', 'b', 'c'\]. Received: \['c', 'b', 'a'\]"


def compile_model(method=DANN, **options):
    model = method(linear(3, 4), 3, **options)
    model.compile("sgd")
    return model


@pytest.fixture(scope="module")
def fitted():
    model = compile_model()
    model.fit(PAIRS, verbose=0, validation_data=(FRAME, LABELS))
    return model


BATCH = {**PAIR, "target": SWAPPED}, LABELS
SITES = {"site": LABELS}
CALLS = {
    "predict": lambda model: model.predict(SWAPPED, verbose=0),
    "evaluate": lambda model: model.evaluate(SWAPPED, LABELS, verbose=0),
    "evaluate pairs": lambda model: model.evaluate(SWAPPED_PAIRS, verbose=0),
    "evaluate test batches": lambda model: model.evaluate(SWAPPED_TESTS, verbose=0),
    "evaluate a pair": lambda model: model.evaluate(*BATCH, verbose=0),
    "predict on batch": lambda model: model.predict_on_batch(SWAPPED),
    "test on batch": lambda model: model.test_on_batch(SWAPPED, LABELS),
    "train on batch": lambda model: model.train_on_batch(*BATCH),
    "call": lambda model: model(SWAPPED),
    "second fit": lambda model: model.fit(SWAPPED_PAIRS, verbose=0),
    "check pairs": lambda model: check(model, SWAPPED_PAIRS),
    "check a batch": lambda model: check(model, BATCH),
    "leakage": lambda model: leakage(model, SWAPPED, SITES),
    "outputs of the source": lambda model: compute_outputs(model, source=(SWAPPED, LABELS)),
    "outputs of the target": lambda model: compute_outputs(model, target=SWAPPED),
    "outputs of the classifier": lambda model: compute_outputs(
        model.classifier, target=SWAPPED, features=False
    ),
    "classifier": lambda model: predict(model.classifier, SWAPPED),
    "leakage of the classifier": lambda model: leakage(model.classifier, SWAPPED, SITES),
    "batch normalization": lambda model: dann.adapt_batch_norm(model, SWAPPED),
    "certify": lambda model: certify(model, SWAPPED_PAIRS),
    "gradient conflict": lambda model: gradient_conflict(model, BATCH),
    "feature distance": lambda model: feature_distance(model, BATCH),
}


@pytest.mark.parametrize("name", CALLS)
def test_other_column_order_is_refused_after_fit(fitted, name):
    with pytest.raises(ValueError, match=WORDS):
        CALLS[name](fitted)


@pytest.mark.parametrize("data", [(SWAPPED, LABELS), SWAPPED_PAIRS], ids=["tuple", "pairs"])
def test_validation_data_is_refused_before_training(data):
    model = compile_model()
    weights = model.get_weights()
    with pytest.raises(ValueError, match=WORDS):
        model.fit(PAIRS, validation_data=data, verbose=0)
    assert_all_equal(model.get_weights(), weights)


@pytest.mark.parametrize(
    ("model", "x", "y"),
    [
        (compile_model(), PAIR, LABELS),
        (compile_model(SourceOnly), FRAME, LABELS),
        (compile_model(), DOMAINS.batches(), None),
        (compile_model(SourceOnly), dann.data.join_sources([DOMAINS, DOMAINS]).batches(), None),
    ],
    ids=["pair", "plain inputs", "domain pair", "joined sources"],
)
def test_every_form_of_frames_is_remembered(model, x, y):
    model.fit(x, y, verbose=0, steps_per_epoch=1)
    with pytest.raises(ValueError, match=WORDS):
        model.predict(SWAPPED, verbose=0)


def test_same_order_and_arrays_are_accepted(fitted):
    expected = fitted.predict(SOURCE, verbose=0)
    np.testing.assert_array_equal(fitted.predict(FRAME, verbose=0), expected)
    np.testing.assert_array_equal(fitted.predict(SWAPPED[list("abc")], verbose=0), expected)
    np.testing.assert_allclose(fitted.predict_on_batch(FRAME), expected, rtol=1e-4)
    losses = [fitted.test_on_batch(x, y) for x, y in ((SOURCE, LABELS), (FRAME, SERIES))]
    np.testing.assert_allclose(*losses, rtol=1e-6)
    model = compile_model()
    model.fit(dann.data.pair((SOURCE, LABELS), TARGET), verbose=0)  # without column names
    assert model.predict(SWAPPED, verbose=0).shape == expected.shape


def test_loaded_model_knows_the_columns(fitted, tmp_path):
    fitted.save(tmp_path / "model.keras")
    with pytest.raises(ValueError, match=WORDS):
        keras.models.load_model(tmp_path / "model.keras").predict(SWAPPED, verbose=0)
