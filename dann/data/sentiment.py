"""Reader of English sentences of four domains, rated positive or negative."""

import csv
import os
import pathlib
import tarfile
from typing import Any

import keras
import numpy as np
import pandas

from dann.checks import check_choice
from dann.data.domain_pair import DomainPair
from dann.data.parts import build_pair

_ARCHIVE = "vaderSentiment-3.3.2.tar.gz"
_NESTED = "vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz"
_FILES = {
    "tweets": "tweets",
    "amazon": "amazonReviewSnippets",
    "films": "movieReviewSnippets",
    "nyt": "nytEditorialSnippets",
}
_NEUTRAL = 0.5  # sentences rated closer to 0 are dropped


def sentiment(
    source: str,
    target: str,
    *,
    data_dir: str | os.PathLike | None = None,
    output_mode: str | None = "tf_idf",
    max_tokens: int = 2000,
    **options: Any,
) -> DomainPair:
    """Pairs two of four domains of English sentences that people rated from -4 to 4.

    The domains are `"tweets"`, `"amazon"` (reviews), `"films"` (reviews) and `"nyt"` (editorials).
    The classes are `negative`, rated below -0.5, and `positive`, rated above 0.5; other sentences
    are dropped. All sentences of a review or article are on one side of a split.

    By default `keras.layers.TextVectorization` converts each sentence to numbers. The layer is
    fitted to the training sentences of both domains, without labels.

    The source distribution of vaderSentiment 3.3.2 contains the sentences, which belong to their
    authors. Download it with `pip download --no-binary :all: vaderSentiment==3.3.2 --no-deps`.

    Args:
        source: Name of the source.
        target: Name of the target, a different domain.
        data_dir: Folder that contains the archive, directly or in `real/`. Defaults to `None`: the
            working directory.
        output_mode: Representation of a sentence: `"tf_idf"` of its words (default), or `None` for
            the text, for a network that reads texts.
        max_tokens: Maximum number of words that `TextVectorization` distinguishes; all other words
            count as one.
        **options: `test_share`, here of the reviews or articles, and `seed` of `dann.data.arrays`.

    Returns:
        A pair with inputs float32 `(n, words)`, at most `max_tokens` words; or strings `(n,)`.

    Raises:
        FileNotFoundError: If the archive is missing.
        ValueError: If a domain or output mode is unknown, or both domains are the same.

    Reference:
        - Hutto and Gilbert, 2014, VADER: A parsimonious rule-based model for sentiment analysis of
          social media text, ICWSM.
    """
    check_choice("output_mode", output_mode, (None, "tf_idf"))
    check_choice("source", source, _FILES)
    check_choice("target", target, [name for name in _FILES if name != source])
    folder = pathlib.Path(data_dir or ".").expanduser().absolute()
    path = next((p for p in (folder / _ARCHIVE, folder / "real" / _ARCHIVE) if p.is_file()), None)
    if path is None:
        raise FileNotFoundError(
            f"Expected `data_dir` (paths.data_dir) to contain {_ARCHIVE}. Received: {folder}. "
            "Download the archive with `pip download --no-binary :all: vaderSentiment==3.3.2 "
            "--no-deps`"
        )
    texts = build_pair(
        {"source": _read(path, source), "target": _read(path, target)},
        source_name=source,
        target_name=target,
        class_names=("negative", "positive"),
        **options,
    )
    if output_mode is None:
        return texts
    words = keras.layers.TextVectorization(max_tokens=max_tokens, output_mode=output_mode)
    words.adapt(np.concatenate([texts.source_train[0], texts.target_train]))
    return texts.map_inputs(lambda texts: np.asarray(words(texts), np.float32))


def _read(path, domain):
    """Returns sentences, labels 0 and 1, and the review or article of each sentence as group."""
    form: Any = {"sep": "\t", "names": ["id", "rating", "text"], "quoting": csv.QUOTE_NONE}
    form |= {"dtype": {"id": str, "text": str}, "keep_default_na": False}
    with tarfile.open(path) as outer, tarfile.open(fileobj=outer.extractfile(_NESTED)) as inner:
        file: Any = inner.extractfile(f"hutto_ICWSM_2014/{_FILES[domain]}_GroundTruth.txt")
        table = pandas.read_csv(file, encoding_errors="replace", **form)
    table = table[table["rating"].abs() > _NEUTRAL]
    labels, groups = table["rating"] > 0, f"{domain} " + table["id"].str.partition("_")[0]
    return {"inputs": table["text"], "labels": labels, "groups": groups}
