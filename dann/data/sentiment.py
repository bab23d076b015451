"""The reader of sentences of four domains, rated as positive or negative."""

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
_OF_WORDS = "tf_idf", "multi_hot", "count"
_NEUTRAL = 0.5  # ratings nearer to 0 are dropped


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

    They are `"tweets"`, `"amazon"` (reviews), `"films"` (reviews) and `"nyt"` (editorials). The
    classes are `negative`, rated below -0.5, and `positive`, above 0.5; sentences between are left
    out. Sentences of one review or article are on one side of a split.

    By default each sentence becomes numbers by `keras.layers.TextVectorization`, fitted to the
    training sentences of both domains. It sees no labels and no test sentences.

    The sentences come with the source distribution of vaderSentiment 3.3.2, which
    `pip download --no-binary :all: vaderSentiment==3.3.2 --no-deps` brings, and belong to their
    authors.

    Args:
        source: Name of the source.
        target: Name of the target, another one.
        data_dir: Folder that holds the archive, as it is or in `real/`. Defaults to `None`: the
            folder of work.
        output_mode: What a sentence becomes: `"tf_idf"` (the default), `"multi_hot"` or `"count"`;
            `"word_vectors"`, the mean of pretrained vectors of its words, which the package
            wordllama holds (`pip install dann[wordllama]`) and nothing is fitted to; or `None` for
            the text itself, for a network that reads texts.
        max_tokens: Largest number of words that `TextVectorization` tells apart; the others count
            as one.
        **options: `test_share`, here of the reviews or articles, and `seed` of `dann.data.arrays`.

    Returns:
        A pair with inputs float32 `(n, words)`, at most `max_tokens` of them, vectors `(n, 256)`,
        or texts `(n,)`.

    Raises:
        FileNotFoundError: If the archive is missing.
        ImportError: If wordllama is needed and not installed.
        ValueError: If there is no domain or output mode of this name, or both domains are one.

    Reference:
        - Hutto and Gilbert, 2014, VADER: A parsimonious rule-based model for sentiment analysis of
          social media text, ICWSM.
    """
    check_choice("output_mode", output_mode, (None, "word_vectors", *_OF_WORDS))
    for name, domain in (("source", source), ("target", target)):
        check_choice(name, domain, _FILES)
    if source == target:
        raise ValueError(f"Source and target must differ. Received: {source} twice")
    path = _archive(pathlib.Path(data_dir or ".").expanduser().absolute())
    texts = build_pair(
        {"source": _read(path, source), "target": _read(path, target)},
        source_name=source,
        target_name=target,
        class_names=("negative", "positive"),
        **options,
    )
    if output_mode is None:
        return texts
    if output_mode == "word_vectors":
        return texts.map_inputs(_word_vectors())
    words = keras.layers.TextVectorization(max_tokens=max_tokens, output_mode=output_mode)
    words.adapt(np.concatenate([texts.source_train[0], texts.target_train]))
    return texts.map_inputs(lambda part: np.asarray(words(part), np.float32))


def _archive(folder):
    for path in (folder / _ARCHIVE, folder / "real" / _ARCHIVE):
        if path.is_file():
            return path
    raise FileNotFoundError(
        f"`data_dir` (paths.data_dir) must hold {_ARCHIVE}, which `pip download --no-binary :all: "
        f"vaderSentiment==3.3.2 --no-deps` brings. Received: {folder}"
    )


def _word_vectors():
    try:
        import wordllama  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        told = "data.output_mode=word_vectors needs `pip install dann[wordllama]`"
        raise ImportError(told) from error
    # Its tokenizer is in the package, though it looks for it elsewhere and would download it.
    folder = pathlib.Path(str(wordllama.__file__)).parent
    model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
    return lambda part: model.embed(part.tolist())


def _read(path, domain):
    """Sentences, labels 0 and 1, and the review or article of each, its domain in the name."""
    form: Any = {"sep": "\t", "names": ["id", "rating", "text"], "quoting": csv.QUOTE_NONE}
    form |= {"dtype": {"id": str, "text": str}, "keep_default_na": False}
    with tarfile.open(path) as outer, tarfile.open(fileobj=outer.extractfile(_NESTED)) as inner:
        file: Any = inner.extractfile(f"hutto_ICWSM_2014/{_FILES[domain]}_GroundTruth.txt")
        table = pandas.read_csv(file, encoding_errors="replace", **form)
    table = table[table["rating"].abs() > _NEUTRAL]
    labels, groups = table["rating"] > 0, f"{domain} " + table["id"].str.partition("_")[0]
    return {"inputs": table["text"], "labels": labels, "groups": groups}
