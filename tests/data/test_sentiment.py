"""On an archive of the real form with sentences of our own, and on the real one where it lies."""

import importlib.util
import io
import os
import pathlib
import sys
import tarfile

import numpy as np
import pytest

from dann.data import sentiment

REAL = pathlib.Path(os.environ.get("DANN_DATA_DIR", "../shared/data"))
NAME = "vaderSentiment-3.3.2.tar.gz"
FILES = {"tweets": "tweets", "amazon": "amazonReviewSnippets", "nyt": "nytEditorialSnippets"}


def packed(files):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """20 reviews a domain of 4 sentences: good, bad, neither, and one with a broken byte."""
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
    inner = {"vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz": packed(files)}
    folder = tmp_path_factory.mktemp("raw")
    (folder / "real").mkdir()
    (folder / "real" / NAME).write_bytes(packed(inner))
    return folder


def parts(domains):
    return domains.source_train, domains.source_test, domains.target_test


def test_texts_keep_their_labels_and_reviews_are_on_one_side(folder):
    domains = sentiment("amazon", "tweets", data_dir=folder, output_mode=None)
    assert domains.name == "amazon → tweets"
    assert domains.class_names == ("negative", "positive")
    for texts, labels in parts(domains):
        assert [text.startswith("good") for text in texts] == (labels == 1).tolist()
    train, test = ({t.split()[2] for t in x} for x, _ in parts(domains)[:2])
    assert (len(train), len(test), len(train & test)) == (16, 4, 0)
    assert len(domains.target_train) == 3 * 16
    assert all(text.split()[1] == '"tweets' for text in domains.target_train)


def test_words_are_those_of_both_training_sets(folder):
    texts = sentiment("amazon", "tweets", data_dir=folder, output_mode=None)
    words = {
        word.strip('"').lower()
        for part in (texts.source_train[0], texts.target_train)
        for text in part
        for word in text.split()
    }
    domains = sentiment("amazon", "tweets", data_dir=folder, output_mode="multi_hot")
    assert domains.input_shape == (len(words) + 1,)  # and one for all other words
    assert domains.source_train[0].dtype == np.float32
    assert np.isin(domains.target_train, (0, 1)).all()
    # A test review's number is a word that was not seen, unless the other domain has it.
    assert domains.source_test[0][:, 0].max() == 1
    assert not domains.source_train[0][:, 0].any()
    few = sentiment("amazon", "tweets", data_dir=folder, max_tokens=5)
    assert few.input_shape == (5,)


@pytest.mark.skipif(not importlib.util.find_spec("wordllama"), reason="needs wordllama")
def test_word_vectors_are_means_of_those_of_a_network_that_saw_other_texts(folder):
    options = {"data_dir": folder, "output_mode": "word_vectors"}
    domains = sentiment("amazon", "tweets", **options)
    assert domains.input_shape == (256,)
    assert domains.source_train[0].dtype == np.float32
    swapped = sentiment("tweets", "amazon", **options)  # nothing is fitted to the source
    np.testing.assert_array_equal(swapped.target_train, domains.source_train[0])


def test_without_their_package_one_line_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "wordllama", None)
    with pytest.raises(ImportError, match=r"pip install dann\[wordllama\]"):
        sentiment("amazon", "tweets", data_dir=folder, output_mode="word_vectors")


@pytest.mark.parametrize(
    ("names", "options", "error", "told"),
    [
        (("amazon", "books"), {}, ValueError, "books"),
        (("amazon", "amazon"), {}, ValueError, "must differ"),
        (("amazon", "nyt"), {"output_mode": "int"}, ValueError, "output_mode"),
        (("amazon", "nyt"), {"data_dir": "nowhere"}, FileNotFoundError, "pip download --no-binary"),
    ],
)
def test_what_is_not_there_is_told(folder, names, options, error, told):
    with pytest.raises(error, match=told):
        sentiment(*names, **{"data_dir": folder, **options})


@pytest.mark.skipif(not (REAL / "real" / NAME).is_file(), reason=f"needs {NAME} in {REAL}/real")
@pytest.mark.parametrize(
    ("domain", "count", "share"),
    [
        ("tweets", 3362, 0.684),
        ("amazon", 2943, 0.586),
        ("films", 10043, 0.496),
        ("nyt", 2788, 0.395),
    ],
)
def test_the_real_sentences_have_the_known_shares(domain, count, share):
    other = "nyt" if domain == "tweets" else "tweets"
    domains = sentiment(domain, other, data_dir=REAL, output_mode=None)
    labels = np.concatenate([domains.source_train[1], domains.source_test[1]])
    assert len(labels) == count
    assert labels.mean() == pytest.approx(share, abs=5e-4)
