"""Data that readers and pairs refuse, with the words that tell the user what to repair."""

import dataclasses
import pickle
import re

import ml_dtypes
import numpy as np
import pandas
import pytest
from PIL import Image

from dann.data import (
    DomainPair,
    ImageFiles,
    arrays,
    csv_table,
    image_folder,
    join_sources,
    npz,
    pair,
)
from dann.data.image_paths import read_images
from dann.data.lazy_array import LazyArray

X = np.random.default_rng(0).normal(size=(60, 5, 2))
Y = np.arange(60) % 3
NAMES = np.array(["cat", "ant", "bee"])[Y]
FRAME = pandas.DataFrame(X[:, :, 0], columns=list("abcde"))
SWAPPED = FRAME[list("ebcda")] + 9
RENAMED = FRAME.rename(columns={"a": "other"})
PEOPLE = np.arange(60) // 5
IMAGES = np.zeros((6, 4, 4, 1), "uint8")
PAIR = DomainPair("a", "b", (IMAGES, Y[:6]), (IMAGES, Y[:6]), IMAGES, (IMAGES, Y[:6]), 3)
LABELLED = dataclasses.replace(PAIR, target_train_labels=Y[:6])
OTHER = arrays((X, Y), (X + 9, Y))
TABLE = "age,city,label\n1,x,yes\n2,y,no\n3,z,yes\n"


class Trap:
    def __reduce__(self):
        return pytest.fail, ("a pickle was run",)


def read(source=(X, Y), target=X + 9, **options):
    return lambda folder: arrays(source, target, **options)


def paired(source=(X, Y), target=X, size=2, **options):
    return lambda folder: pair(source, target, size, **options)[0]


def changed(domains=PAIR, **fields):
    return lambda folder: dataclasses.replace(domains, **fields)


def joined(*domains):
    return lambda folder: join_sources(domains)


def table(a=TABLE, b=TABLE, label="label", **options):
    def call(folder):
        for name, text in (("a", a), ("b", b)):
            (folder / f"{name}.csv").write_bytes(text.encode("latin-1"))
        return csv_table(folder / "a.csv", folder / "b.csv", label, **options)

    return call


def file(content=None, options=None, **contents):
    def call(folder):
        np.savez(folder / "a.npz", x=X, y=Y)
        np.savez(folder / "b.npz", **contents)
        if content is not None:
            (folder / "b.npz").write_bytes(content)
        return npz(folder / "b.npz", folder / "a.npz", **(options or {}))

    return call


def images(source="photo", target="sketch", image_size=4, root=".", text=None, **options):
    def call(folder):
        for name in ("photo/bike/0", "photo/cup/1", "sketch/bike/2", "sketch/cup/3"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (2, 2)).save(folder / f"{name}.png")
        if text is not None:
            (folder / "list.txt").write_text(text)
            return read_images(folder, source, "list.txt")
        return image_folder(folder / root, source, target, image_size, **options)

    return call


ARRAYS = {
    "masked numbers": (read((np.ma.masked_equal(X, X[0, 0, 0]), Y)), "masked array"),
    "numbers as strings": (read((X.astype(str), Y)), "of strings; target"),
    "numbers beyond float32": (read(target=np.full(X.shape, 1e300)), "NaN or infinite"),
    "inputs of one axis": (read((X[:, 0, 0], Y)), "shape (batch, size, ...)"),
    "source without labels": (read(X), "(inputs, labels)"),
    "no examples": (read((X[:0], Y[:0])), "at least 2"),
    "fewer labels than inputs": (read((X, Y[:4])), "labels per input"),
    "labels with fractions": (read((X, Y + 0.5)), "integers or strings. Received: float64"),
    "unknown source labels": (read((X, Y - 1)), "label for each example. Received: 20 of 60"),
    "a class of the target alone": (
        read((X, NAMES), (X + 9, np.where(Y, NAMES, "dog"))),
        "among ['ant', 'bee', 'cat']. Received: ['dog']",
    ),
    "share above 1": (read(test_share=1.5), "`test_share`"),
    "one example per class": (read((X[:3], Y[:3])), "a class with at least 2 examples"),
    "one class": (read((X, Y * 0)), "`num_classes`"),
    "other order of columns": (read((FRAME, Y), SWAPPED), "same columns in the same order"),
    "reversed view as target": (read(target=(X[::-1], Y)), "different arrays"),
    "view as test set": (read(target_test=(X[-3:], Y[-3:])), "different arrays"),
    "too few groups": (read(groups=(PEOPLE[:5], None)), "groups per input"),
    "one group": (read(groups=(PEOPLE * 0, None)), "train set will be empty"),
    "share of groups above 1": (read(groups=(PEOPLE, None), test_share=2), "`test_share`"),
    "group in train and test": (read(groups=(PEOPLE, PEOPLE + 6)), "Use different names"),
    "group in given test": (
        read(groups=(PEOPLE, PEOPLE), source_test=(X + 99, Y)),
        "No group may be in a training set and in a test set",
    ),
    "a class in one group": (
        read((X, Y // 2 * 0 + PEOPLE // 4), groups=(PEOPLE // 4, None), test_share=0.5),
        "Try another `seed`",
    ),
    "strings beside numbers": (read((NAMES, Y)), "strings; target"),
}
DOMAINS = {
    "empty set": (changed(target_train=IMAGES[:0]), "target train set must contain at least one"),
    "other type": (changed(target_test=(IMAGES.astype("float32"), Y[:6])), "of float32"),
    "label out of range": (changed(target_labelled=(IMAGES, Y[:6] + 1)), "Received: 3"),
    "too few class names": (changed(class_names=("a",)), "3 names, one per class"),
    "oracle without labels": (lambda _: PAIR.oracle(), "no labels of b"),
    "oracle without test labels": (
        lambda _: dataclasses.replace(LABELLED, target_test=(IMAGES, None)).oracle(),
        "no labels of b",
    ),
    "no labels to learn from": (lambda _: PAIR.with_target_labelled(1), "needs labels"),
    "no labelled examples": (lambda _: LABELLED.with_target_labelled(0), "`per_class`"),
    "too many labelled examples": (lambda _: LABELLED.with_target_labelled(3), "[2, 2, 2]"),
    "no pairs": (joined(), "Received: []"),
    "other target": (joined(OTHER, read(target=(X + 8, Y))(None)), "share one target"),
    "target without labels": (joined(OTHER, read()(None)), "share one target"),
    "joined twice": (joined(join_sources([PAIR, PAIR]), PAIR), "Join all pairs in one call"),
}
PAIRS = {
    "other last axis": (paired(target=X[..., :1]), "('any', 1) of float64"),
    "missing target": (paired(target=None), "must contain inputs. Received: None"),
    "fewer labels": (paired((X, Y[:3])), "(60, 5, 2)"),
    "no labels": (paired(X), "`(inputs, labels)`"),
    "labels of None": (paired((X, None)), "`(inputs, labels)`"),
    "inputs of two lengths": (paired(({"a": X, "b": X[:3]}, Y)), "(3, 5, 2)"),
    "frame of other order": (paired((FRAME, Y), SWAPPED), "same columns"),
    "frame in a dict": (paired(({"a": FRAME}, Y), {"a": SWAPPED}), "same columns"),
    "other column": (paired((FRAME, Y), RENAMED), "missing columns ['other']"),
    "missing values": (paired((FRAME.assign(a=pandas.NA), Y), FRAME), "without missing values"),
    "texts in a frame": (paired((FRAME.assign(a="text"), Y), FRAME), "pandas.get_dummies"),
    "NaN of bfloat16": (
        paired((np.where(X > 1, np.nan, X).astype(ml_dtypes.bfloat16), Y)),
        "NaN or infinite",
    ),
    "complex numbers": (paired((X * 1j, Y), X * 1j), "real numbers. Received: complex128"),
    "negative weights": (paired((X, Y, Y - 1.0)), "one weight >= 0 per example"),
    "weights of other shape": (paired((X, Y, X)), "shape (60, 5, 2)"),
    "batch larger than source": (paired(size=61), "source must fill one"),
    "labelled target without labels": (paired(target_labelled=X), "labelled target must be"),
    "labelled target of floats": (
        paired(target_labelled=(X, Y + 0.5)),
        "Cannot cast array data from dtype('float64') to dtype('int64')",
    ),
    "weights of one domain": (paired(target_labelled=(X, Y, Y)), "weights of both"),
    "process out of range": (paired(num_processes=2, process_id=2), "`process_id`"),
    "processes and labelled target": (
        paired(num_processes=2, target_labelled=(X, Y)),
        "with a labelled target",
    ),
    "too few source domains": (paired(source_domain=Y[:9]), "one integer per source example"),
    "fractional source domains": (paired(source_domain=Y / 2), "Received: float64"),
    "source domains in a column": (paired(source_domain=Y[:, None]), "of shape (60, 1)"),
    "balanced one-hot labels": (paired((X, np.eye(3)[Y]), balanced=True), "np.argmax(labels"),
    "empty dataset": (paired(iter([])), "no batches"),
    "string labels": (paired(iter([(X, NAMES)])), "numpy.unique(labels"),
    "dataset of dicts": (paired(iter([{"image": X, "label": Y}])), "`(inputs, labels)`"),
    "dataset with negative weights": (paired(iter([(X, Y, Y - 1.0)])), "one weight >= 0"),
    "balanced dataset": (paired(iter([(X, Y)]), balanced=True), "read by index"),
    "dataset for processes": (paired(iter([(X, Y)]), num_processes=2), "num_processes=2"),
    "batches of two shapes": (
        paired(iter([(X[:1], Y[:1]), (X[:1, :4], Y[:1])])),
        "must match exactly",
    ),
    "function": (paired(lambda: iter([(X, Y)])), "Received: function"),
    "path": (paired("photos/"), "Received: str"),
}
TABLES = {
    "rows too long": (table(b=TABLE + "\n1,x,yes,no\n"), "b.csv: Error tokenizing data"),
    "all rows too long": (table(b="age,city\n1,x,yes\n2,y,no\n"), "data.delimiter"),
    "other delimiter": (table(TABLE.replace(",", ";")), "a.csv must have several columns"),
    "empty file": (table(b=""), "b.csv: No columns to parse"),
    "other encoding": (table(b="age,city,label\n1,\xff,yes\n"), "b.csv: 'utf-8' codec"),
    "other column": (table(b=TABLE.replace("age", "years")), "['age', 'years']"),
    "missing label column": (table(label="labl"), "labels in 'labl'. Did you mean label?"),
    "source row without label": (table(TABLE + "4,x,\n"), "Received: 1 of 4 examples"),
    "class of the target alone": (table(b=TABLE + "4,x,maybe\n"), "Received: ['maybe']"),
    "numeric column of texts": (table(numeric=["city"]), "['x', 'y', 'z'] in 6 of 6 rows"),
    "no columns": (table(numeric=[], categorical=[]), "must contain columns of ['age', 'city']"),
    "infinite number": (table(b=TABLE + "-inf,x,no\n"), "'age' must contain finite numbers"),
    "one file twice": (
        lambda folder: csv_table(folder / "one.csv", folder / "one.csv"),
        "different files",
    ),
    "folder": (lambda folder: csv_table(folder, folder / "one.csv"), "Received: the folder"),
    "target and nuisances": (table(nuisances=["city"]), "no target and the names of `nuisances`"),
    "no labels": (file(x=X), "labels in 'y'. Received: ['x']"),
    "no inputs": (file(X=X, y=Y), "inputs in 'x'. Received: ['X', 'y']"),
    "no test labels": (file(x=X, y=Y, x_test=X), "source test must have labels in 'y_test'"),
    "objects": (file(x=np.array([Trap()], dtype=object), y=Y), "b.npz as an .npz file"),
    "pickle": (file(pickle.dumps(Trap())), "b.npz as an .npz file"),
    "damaged archive": (file(b"PK\x03\x04 no archive"), "b.npz as an .npz file"),
    "link to one file": (
        lambda folder: npz(folder / "a.npz", folder / "link.npz"),
        "different files",
    ),
    "missing groups": (file(options={"groups": "person"}, x=X, y=Y), "groups in 'person'"),
}
IMAGE_FILES = {
    "new images trained on": (
        lambda folder: images(target_new=folder / "photo/../sketch")(folder),
        "must be different images",
    ),
    "one domain twice": (images(target="photo"), "must be different images"),
    "source without classes": (images(source="photo/bike"), "one folder per class"),
    "no pixels": (images(image_size=0), "`image_size`"),
    "fractional pixels": (images(image_size=2.5), "`image_size`"),
    "unknown option": (images(classes="all"), "'same', 'shared', 'source'"),
    "missing domain": (images(target="nowhere"), "Existing folders: "),
    "missing root": (images(root="nowhere"), "(data.root). Received: "),
    "missing list": (images(target_test_list="no.txt"), "no.txt"),
    "empty list": (images(text=""), "list.txt must contain lines `path label`"),
    "label of text": (images(text="photo/cup/1.png 1\nphoto/bike/0.png one"), "Image 2 of"),
    "missing image": (images(text="photo/cup/40.png 1"), "Received: 'photo/cup/40.png 1'"),
    "two labels": (images(text="photo/cup/1.png 1\nphoto/cup/1.png 2"), "one label per image"),
    "some labels": (
        images(text="photo/cup/1.png 1\nphoto/bike/0.png"),
        "2 images, some without a label",
    ),
    "two channels": (lambda folder: ImageFiles([], 4, channels=2), "`channels`"),
}
REFUSALS = {
    f"{family}: {name}": refusal
    for family, refusals in (
        ("arrays", ARRAYS),
        ("domains", DOMAINS),
        ("pair", PAIRS),
        ("files", TABLES),
        ("images", IMAGE_FILES),
    )
    for name, refusal in refusals.items()
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("refused")
    np.savez(folder / "a.npz", x=X, y=Y)
    (folder / "link.npz").symlink_to(folder / "a.npz")
    (folder / "one.csv").write_text(TABLE)
    return folder


@pytest.mark.parametrize(("call", "words"), REFUSALS.values(), ids=REFUSALS)
def test_invalid_data_is_refused_in_one_line(folder, call, words):
    with pytest.raises((ValueError, TypeError, OSError), match=re.escape(words)) as raised:
        call(folder)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_missing_and_infinite_numbers_are_refused(value):
    spoilt, weights = X.copy(), np.ones(60)
    spoilt[7, 2, 1] = weights[7] = value
    lazy = LazyArray(spoilt.shape, spoilt.dtype, spoilt.__getitem__)
    for call in (
        read((spoilt, Y)),
        read(target=spoilt),
        paired((spoilt, Y)),
        paired(target=spoilt),
        paired(target=[X, spoilt]),
        paired((X, weights)),
        paired((X, Y, weights)),
        paired((lazy, Y), size=60),
        paired((pandas.DataFrame(spoilt[:, :, 1]), Y), pandas.DataFrame(X[:, :, 1])),
        paired((spoilt.astype(object).tolist(), Y)),
    ):
        with pytest.raises(ValueError, match="NaN or infinite|same structure"):
            call(None)
