"""Data that readers and pairs refuse, with the words that tell the user what to repair."""

import dataclasses
import pickle
import re

import ml_dtypes
import numpy as np
import pandas
import pytest
from PIL import Image
from scipy import sparse

import dann
from dann.data import DomainPair, Standardizer, arrays, csv_table, join_sources, npz, pair
from dann.data.image_folder import read_images
from dann.data.lazy_array import LazyArray

X = np.random.default_rng(0).normal(size=(60, 5, 2))
Y = np.arange(60) % 3
BFLOAT16 = np.where(X > 1, np.nan, X).astype(ml_dtypes.bfloat16)
NAMES = np.array(["cat", "ant", "bee"])[Y]
DOGS = np.where(Y, NAMES, "dog")
FRAME = pandas.DataFrame(X[:, :, 0], columns=list("abcde"))
SWAPPED = FRAME[list("ebcda")] + 9
FRAMES = arrays((FRAME, Y), FRAME + 9)
SWAPPED_FRAMES = arrays((SWAPPED, Y), SWAPPED - 9)
RENAMED = FRAME.rename(columns={"a": "other"})
MISSING = np.where(Y, Y, np.nan)
PEOPLE = np.arange(60) // 5
IMAGES = np.zeros((6, 4, 4, 1), "uint8")
PAIR = DomainPair("a", "b", (IMAGES, Y[:6]), (IMAGES, Y[:6]), IMAGES, (IMAGES, Y[:6]), 3)
OTHER = arrays((X, Y), (X + 9, Y))
NUMBERS = arrays((X, Y / 2), (X + 9, Y / 2))
BALANCED = dataclasses.replace(NUMBERS, balanced=True)
FEWER = arrays((X, Y % 2), (X + 9, Y % 2))
TABLE = "age,city,label\n1,x,yes\n2,y,no\n3,z,yes\n"
BOOLEANS = "age,city,label\n1,True,yes\n2,False,no\n3,true,yes\n"
NEW = pandas.DataFrame({"age": [1, 2, 3], "city": list("xyz")})
CUP = "photo/cup/1.png"
SCALED = Standardizer("each").fit(X, X)


class Trap:
    def __reduce__(self):
        return pytest.fail, ("a pickle was run",)


def read(source=(X, Y), target=X + 9, **options):
    return lambda folder: arrays(source, target, **options)


def pair_call(source=(X, Y), target=X, size=2, **options):
    return lambda folder: pair(source, target, size, **options)[0]


def replace_call(domains=PAIR, **fields):
    return lambda folder: dataclasses.replace(domains, **fields)


def join_call(*domains):
    return lambda folder: join_sources(domains)


def leave_out(domains, target=5):
    return lambda folder: dann.data.leave_one_domain_out(X, Y, domains, target)


def table(a=TABLE, b=TABLE, label="label", **options):
    def call(folder):
        for name, text in (("a", a), ("b", b)):
            (folder / f"{name}.csv").write_bytes(text.encode("latin-1"))
        return csv_table(folder / "a.csv", folder / "b.csv", label, **options)

    return call


def sentiment_call(target):
    return lambda folder: dann.data.sentiment("amazon", target, data_dir=folder)


def one_table(**options):
    return lambda folder: csv_table(folder / "c.csv", **options)


def file(content=None, groups=None, **arrays):
    def call(folder):
        np.savez(folder / "b.npz", **arrays)
        if content is not None:
            (folder / "b.npz").write_bytes(content)
        return npz(folder / "b.npz", folder / "a.npz", groups=groups)

    return call


def images(source="photo", target="sketch", image_size=4, root=".", text=None, **options):
    def call(folder):
        for name in ("photo/bike/0", "photo/cup/1", "sketch/bike/2", "sketch/cup/3", "other/Cup/4"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (2, 2)).save(folder / f"{name}.png")
        (folder / "none").mkdir(exist_ok=True)
        if text is not None:
            (folder / "list.txt").write_text(text)
            return read_images(folder, source, "list.txt")
        if "target_new" in options:
            options["target_new"] = folder / options["target_new"]
        return dann.data.image_folder(folder / root, source, target, image_size, **options)

    return call


# Reader and fault: the call, and words of its message.
REFUSALS = {
    "arrays: masked numbers": (read((np.ma.masked_equal(X, X[0, 0, 0]), Y)), "masked array"),
    "arrays: masked labels": (read((X, np.ma.masked_equal(Y, 0))), "labels of the source to have"),
    "arrays: numbers beyond float32": (read(target=X * 1e300), "infinite. Replace these val"),
    "arrays: too few labels": (read((X, Y[:4])), "labels per input"),
    "arrays: one-hot labels": (read((X, np.eye(3)[Y])), "hot, pass `np.argmax(labels, axis=1)`"),
    "arrays: column of labels": (read(target=(X + 9, Y[:, None])), "Pass `np.ravel(labels)`"),
    "arrays: unknown source labels": (read((X, Y - 1)), "Received: 20 of 60 examples"),
    "arrays: new target class": (read((X, NAMES), (X + 9, DOGS)), "['dog']. If a source lacks"),
    "arrays: new target number": (read(target=(X + 9, Y + 1)), "Received: 3. If a source lacks"),
    "arrays: whole floats": (read((X, Y * 1.0)), "Received: floats. For classes"),
    "arrays: names as numbers": (read((X, NAMES), task="regression"), "numbers, for regression"),
    "arrays: missing target labels": (read(target=(X + 9, MISSING)), "target, set them to -1"),
    "arrays: dict": (read(({"x": X}, Y)), "Received: dict. Several inputs need `dann.data.pair`"),
    "arrays: sparse": (read(target=sparse.csr_array(X[:, 0])), "needs `.toarray()`"),
    "arrays: types": (read(target=X.astype("uint8")), "one shape, data type and scale"),
    "arrays: unknown numbers": (read((X, np.where(Y, Y / 2, np.nan))), "20 of 60 examples"),
    "arrays: one example per class": (read((X[:3], Y[:3])), "a class of the source to have"),
    "arrays: one target": (read(target=X[:1] + 9), "for the test set. Received: 1 examples"),
    "arrays: one class": (read((X, Y * 0)), "at least 2 classes. Received: 1"),
    "arrays: three arrays": (lambda _: arrays(FRAME, Y, FRAME + 9), "to be `(inputs, labels)`"),
    "arrays: list": (read([X, Y]), "`(inputs, labels)` as a tuple of two arrays. Received: list"),
    "arrays: no target": (read(target=None), "the target to contain finite numbers"),
    "arrays: order of columns": (read((FRAME, Y), SWAPPED), "same columns in the same order"),
    "arrays: view as target": (read(target=(X[::-1], Y)), "different arrays"),
    "groups: one domain": (read(groups=PEOPLE), "one of its groups per input"),
    "groups: NaN": (read(groups=(MISSING, None)), "the group of each example. Received: N"),
    "groups: train and test": (read(groups=(PEOPLE, PEOPLE + 6)), "Use different names"),
    "domains: label out of range": (replace_call(target_labeled=(IMAGES, Y[:6] + 1)), "3"),
    "pair: balanced numbers": (lambda _: BALANCED.batches(), "labels with fractions"),
    "labeled: numbers": (lambda _: NUMBERS.with_target_labeled(1), "Received: none of target"),
    "labeled: no labels": (lambda _: PAIR.with_target_labeled(1), "such as class folders or"),
    "sources: other targets": (join_call(OTHER, read(target=(X + 8, Y))(None)), "one target"),
    "sources: other classes": (join_call(OTHER, FEWER), "of all classes as `class_names`"),
    "sources: order of columns": (join_call(FRAMES, SWAPPED_FRAMES), "data frame columns"),
    "sources: arrays": (join_call((X, Y)), "join_sources([first, second])"),
    "sources: unknown target": (leave_out(Y), "target=5"),
    "sources: NaN domains": (leave_out(MISSING, 2), "NaN or None for 20 of 60"),
    "pair: too few labels": (pair_call((X, Y[:3])), "such as one label per input. Received: shape"),
    "pair: no source labels": (pair_call(X), "Received: ndarray without labels"),
    "pair: no numbers": (pair_call(target=X[..., :0]), "at least one example, of at least one num"),
    "pair: list of rows": (pair_call(([*X], Y)), "Use `numpy.stack(rows)`"),
    "pair: other column": (pair_call((FRAME, Y), RENAMED), "missing columns ['other']"),
    "pair: NaN of bfloat16": (pair_call((BFLOAT16, Y)), "NaN or infinite"),
    "pair: negative weights": (pair_call((X, Y, Y - 1.0)), ">= 0, not all 0: one per example, or"),
    "pair: weights of 0": (pair_call((X, Y, Y * 0.0)), "Received: shape (60,), from 0.0 to 0.0"),
    "pair: batch too large": (pair_call(size=61), "fill one batch (trainer.batch_size)"),
    "pair: negative source domains": (pair_call(source_domain=-Y), "int64 with the values -2, -1."),
    "pair: too few source domains": (pair_call(source_domain=Y[:9]), "one domain per source"),
    "pair: balanced one-hot": (pair_call((X, np.eye(3)[Y]), balanced=True), "np.argmax(labels"),
    "pair: path": (pair_call("photos/"), "Received: str"),
    "dataset: empty": (pair_call(iter([])), "no batches"),
    "csv: slice of a frame": (lambda _: csv_table(FRAME, FRAME[50:], "a"), "different data frames"),
    "csv: labels as target": (lambda _: csv_table(FRAME, Y), "a data frame that contains the lab"),
    "csv: array of labels": (table(label=Y), "`label` to be the name of a column. Received: nda"),
    "csv: all rows too long": (table(b="age,city\n1,x,yes\n2,y,no\n"), "data.delimiter"),
    "csv: other delimiter": (table(b=TABLE.replace(",", ";")), "'data.delimiter=\";\"'"),
    "csv: damaged body": (lambda path: csv_table(path / "d.gz", path / "c.csv"), "d.gz: Error -3"),
    "csv: damaged": (lambda path: csv_table(path / "c.gz", path / "c.csv"), "c.gz: Not a gzipped"),
    "csv: other encoding": (table(b="age,city,label\n1,\xff,yes\n"), ". Save the file in UTF-8"),
    "csv: other column": (table(b=TABLE.replace("age", "years")), "columns ['age'] that the targ"),
    "csv: missing labels": (table(label="labl"), "in a CSV file, set `label` (data.label) to one"),
    "csv: new target class": (table(b=TABLE + "4,x,YES\n"), "['YES']. Write each class in"),
    "csv: no header": (table(TABLE[15:], TABLE[15:]), "'label'. Does the file have a header?"),
    "csv: drop of no column": (table(drop="agee"), "to contain names of columns. Did you"),
    "csv: target and nuisances": (table(nuisances=["city"]), "a target and nuisances=['city']"),
    "csv: unknown nuisance": (one_table(nuisances=["cit"]), "nuisance cit in 'cit'. Did you mean"),
    "csv: nuisance of numbers": (one_table(nuisances={"city": "number"}), "'number' only numbers"),
    "csv: neither target nor nuisances": (one_table(), "Received: no target and nuisances=[]"),
    "csv: drop of all columns": (table(drop=["age", "city"]), "a column that is an input. Receiv"),
    "csv: two columns": (table("x,y,x,label\n" + "1,2,3,yes\n" * 3), "several columns 'x'"),
    "csv: infinite": (table(b=TABLE.replace("2,", "inf,")), "Received: ['inf'] in 1 of 6 rows"),
    "csv: new text": (table(target_new=NEW.assign(age=["?", 2, ""])), "new target to contain fin"),
    "csv: new words": (table(BOOLEANS, BOOLEANS, target_new=NEW), "['x', 'y', 'z'] in 3 of 3 rows"),
    "csv: number as delimiter": (table(delimiter=3), "`delimiter` to be the character between"),
    "npz: no labels": (file(x=X), "labels in 'y'. Received: ['x']. Rename one or, in"),
    "npz: pickle": (file(pickle.dumps(Trap())), "b.npz as an .npz file"),
    "images: new and trained": (images(target_new="sketch"), "examples. predictions.csv of a run"),
    "images: other classes": (images(target="other"), "list file with labels. Write cup in the"),
    "images: shape as size": (images(image_size=(4, 4, 3)), "to be height and width"),
    "images: empty folder": (images(target="none"), "Received: no images in /"),
    "images: missing domain": (images(target="nowhere"), "Existing folders: "),
    "list: missing image": (images(text="photo/cup/9.png 1"), "Received: 'photo/cup/9.png 1'"),
    "list: two labels": (images(text=f"{CUP} 1\n{CUP} 2"), "one label per image"),
    "sentiment: unknown domain": (sentiment_call("books"), "Received: target='books'"),
    "sentiment: one domain": (sentiment_call("amazon"), "'nyt'. Received: target='amazon'"),
    "sentiment: no archive": (sentiment_call("nyt"), "pip download --no-binary"),
    "standardize: twice": (lambda _: PAIR.standardize("each").standardize("both"), "='each'"),
    "standardize: no fit": (lambda _: Standardizer("each").transform(X), "`fit(source, target)`"),
    "standardize: other columns": (lambda _: SCALED.transform(X[..., :1]), "(60, 5, 1)"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("refused")
    np.savez(folder / "a.npz", x=X, y=Y)
    (folder / "link.npz").symlink_to(folder / "a.npz")
    (folder / "c.csv").write_text(TABLE)
    (folder / "c.gz").write_text(TABLE)
    (folder / "d.gz").write_bytes(bytes.fromhex("1f8b0800000000000000") + b"\xff" * 20)
    return folder


@pytest.mark.parametrize(("call", "words"), REFUSALS.values(), ids=REFUSALS)
def test_invalid_data_is_refused_in_one_line(folder, call, words):
    with pytest.raises((ValueError, TypeError, OSError), match=re.escape(words)) as raised:
        call(folder)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_missing_and_infinite_numbers_are_refused(value):
    spoilt, weights = X.copy(), np.ones(60)
    spoilt[7, 2, 1] = weights[7] = value
    lazy = LazyArray(spoilt.shape, spoilt.dtype, spoilt.__getitem__)
    frames = [pandas.DataFrame(values[:, :, 1]) for values in (spoilt, X)]
    sources = (spoilt, Y), (X, weights), (X, Y, weights), (spoilt.astype(object).tolist(), Y)
    calls = [pair_call(source) for source in sources]
    calls += [pair_call((lazy, Y), size=60), pair_call((frames[0], Y), frames[1])]
    for call in (*calls, read((spoilt, Y)), read(target=spoilt), pair_call(target=[X, spoilt])):
        with pytest.raises(ValueError, match="NaN or infinite|same structure"):
            call(None)
