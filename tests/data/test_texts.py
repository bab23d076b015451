"""Inputs of strings, from the pair of domains to the scores."""

import keras
import numpy as np
import pytest
from support.archives import REAL_DATA, needs_real, pack_files

import dann
from dann.adaptation.prediction import predict
from dann.data import arrays, sentiment
from dann.selection import compute_scores

WORDS = np.array([["good", "fine"], ["bad", "awful"]])
LABELS = np.arange(80) % 2
RNG = np.random.default_rng(0)
TEXTS = np.array([f"{WORDS[y][i % 2]} {RNG.integers(9)}" for i, y in enumerate(LABELS)])
TARGET = np.char.add(TEXTS, " too")


@pytest.mark.parametrize("dtype", ["U", object, np.dtypes.StringDType()], ids=str)
def test_strings_become_objects(dtype):
    domains = arrays((TEXTS.astype(dtype), LABELS), (TARGET.astype(dtype), LABELS))
    assert domains.input_shape == ()
    for part in (domains.source_train[0], domains.target_train, domains.target_test[0]):
        assert part.dtype == object
        assert all(type(text) is str for text in part)
    oracle = domains.oracle()
    np.testing.assert_array_equal(oracle.source_train[0], domains.target_train)


@pytest.mark.tensorflow
def test_text_model_trains_predicts_and_is_scored():
    words = keras.layers.TextVectorization(max_tokens=20, output_mode="multi_hot")
    words.adapt(TEXTS.astype(object))
    inputs = keras.Input((), dtype="string")
    features = keras.layers.Dense(8, activation="relu")(words(inputs))
    model = dann.DANN(keras.Model(inputs, features), num_classes=2, strength=0.1)
    model.compile(keras.optimizers.Adam(0.02), metrics=["accuracy"])
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
        assert scores.keys() == set(dann.selection.scores.SCORES) - {"mix_val"}
        assert scores["source_accuracy"] == 1
        assert np.isfinite(list(scores.values())).all()


NAME = "vaderSentiment-3.3.2.tar.gz"
FILES = {"tweets": "tweets", "amazon": "amazonReviewSnippets", "nyt": "nytEditorialSnippets"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Writes 20 reviews per domain of 4 sentences: good, bad, neutral, and one invalid byte."""
    files = {}
    for domain, stem in FILES.items():
        rows = [
            f'{review}_{number}\t{rating}\t{text} "{domain} {review}'.encode() + tail
            for review in range(1, 21)
            for number, (rating, text, tail) in enumerate(
                [(2.5, "good", b""), (-3, "bad", b""), (0.5, "so", b""), (-0.6, "NA", b" \xff")]
            )
        ]
        files[f"hutto_ICWSM_2014/{stem}_GroundTruth.txt"] = b"\r\n".join(rows) + b"\r\n"
    inner = {"vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz": pack_files(files)}
    folder = tmp_path_factory.mktemp("raw")
    (folder / "real").mkdir()
    (folder / "real" / NAME).write_bytes(pack_files(inner))
    return folder


def test_reviews_are_split_whole(folder):
    domains = sentiment("amazon", "tweets", data_dir=folder, output_mode=None)
    assert domains.name == "amazon → tweets"
    assert domains.class_names == ("negative", "positive")
    parts = domains.source_train, domains.source_test, domains.target_test
    for texts, labels in parts:
        assert [text.startswith("good") for text in texts] == (labels == 1).tolist()
    train, test = ({t.split()[2] for t in x} for x, _ in parts[:2])
    assert (len(train), len(test), len(train & test)) == (16, 4, 0)
    assert len(domains.target_train) == 3 * 16
    assert all(text.split()[1] == '"tweets' for text in domains.target_train)


def test_vocabulary_comes_from_training_texts(folder):
    texts = sentiment("amazon", "tweets", data_dir=folder, output_mode=None)
    training_texts = [*texts.source_train[0], *texts.target_train]
    words = {word.strip('"').lower() for text in training_texts for word in text.split()}
    domains = sentiment("amazon", "tweets", data_dir=folder)
    assert domains.input_shape == (len(words) + 1,)  # plus one for all other words
    assert domains.source_train[0].dtype == np.float32
    # The number of a test review is an unknown word, unless the other domain contains it.
    assert domains.source_test[0][:, 0].max() > 0
    assert not domains.source_train[0][:, 0].any()
    limited = sentiment("amazon", "tweets", data_dir=folder, max_tokens=5)
    assert limited.input_shape == (5,)


@needs_real(f"real/{NAME}")
def test_real_sentences_have_known_shares():
    domains = sentiment("tweets", "nyt", data_dir=REAL_DATA, output_mode=None)
    labels = np.concatenate([domains.source_train[1], domains.source_test[1]])
    assert len(labels) == 3362
    assert labels.mean() == pytest.approx(0.684, abs=5e-4)
