"""Sentiment sentences, from a generated archive and, if present, from the real one."""

import io
import os
import pathlib
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
    inner = {"vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz": packed(files)}
    folder = tmp_path_factory.mktemp("raw")
    (folder / "real").mkdir()
    (folder / "real" / NAME).write_bytes(packed(inner))
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
    words = {
        word.strip('"').lower()
        for part in (texts.source_train[0], texts.target_train)
        for text in part
        for word in text.split()
    }
    domains = sentiment("amazon", "tweets", data_dir=folder)
    assert domains.input_shape == (len(words) + 1,)  # plus one for all other words
    assert domains.source_train[0].dtype == np.float32
    # The number of a test review is an unknown word, unless the other domain contains it.
    assert domains.source_test[0][:, 0].max() > 0
    assert not domains.source_train[0][:, 0].any()
    limited = sentiment("amazon", "tweets", data_dir=folder, max_tokens=5)
    assert limited.input_shape == (5,)


@pytest.mark.parametrize(
    ("names", "options", "error", "words"),
    [
        (("amazon", "books"), {}, ValueError, "books"),
        (("amazon", "amazon"), {}, ValueError, "to differ"),
        (("amazon", "nyt"), {"data_dir": "nowhere"}, FileNotFoundError, "pip download --no-binary"),
    ],
)
def test_unusable_arguments_are_refused(folder, names, options, error, words):
    with pytest.raises(error, match=words):
        sentiment(*names, **{"data_dir": folder, **options})


@pytest.mark.skipif(not (REAL / "real" / NAME).is_file(), reason=f"needs {NAME} in {REAL}/real")
@pytest.mark.parametrize(
    ("domain", "count", "share"), [("tweets", 3362, 0.684), ("films", 10043, 0.496)]
)
def test_real_sentences_have_known_shares(domain, count, share):
    domains = sentiment(domain, "nyt", data_dir=REAL, output_mode=None)
    labels = np.concatenate([domains.source_train[1], domains.source_test[1]])
    assert len(labels) == count
    assert labels.mean() == pytest.approx(share, abs=5e-4)
