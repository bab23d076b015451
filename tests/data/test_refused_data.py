"""What readers and pairs refuse: each of these would else fail late, or not at all."""

import dataclasses
import pickle

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
NAMED = np.array(["cat", "ant", "bee"])[Y]
FRAME = pandas.DataFrame(X[:, :, 0], columns=list("abcde"))
SWAPPED = FRAME[list("ebcda")] + 9
IMAGES = np.zeros((6, 4, 4, 1), "uint8")
PAIR = DomainPair("a", "b", (IMAGES, Y[:6]), (IMAGES, Y[:6]), IMAGES, (IMAGES, Y[:6]), 3)
LABELLED = dataclasses.replace(PAIR, target_train_labels=Y[:6])
OTHER = arrays((X, Y), (X + 9, Y))
TABLE = "age,city,label\n1,x,yes\n2,y,no\n3,z,yes\n"


def spoilt_bfloat16():
    return np.where(X > 1, np.nan, X).astype(ml_dtypes.bfloat16)


class Trap:
    def __reduce__(self):
        return pytest.fail, ("a pickle was run",)


def read(source=(X, Y), target=X + 9, **options):
    return lambda _: arrays(source, target, **options)


def paired(source=(X, Y), target=X, size=2, **options):
    return lambda _: pair(source, target, size, **options)[0]


def changed(domains=PAIR, **fields):
    return lambda _: dataclasses.replace(domains, **fields)


def joined(*domains):
    return lambda _: join_sources(domains)


def table(a=TABLE, b=TABLE, label="label", **options):
    def call(folder):
        for name, text in (("a", a), ("b", b)):
            (folder / f"{name}.csv").write_bytes(text.encode("latin-1"))
        return csv_table(folder / "a.csv", folder / "b.csv", label, **options)

    return call


def file(content=None, **contents):
    def call(folder):
        np.savez(folder / "a.npz", x=X, y=Y)
        np.savez(folder / "b.npz", **contents)
        if content is not None:
            (folder / "b.npz").write_bytes(content)
        return npz(folder / "b.npz", folder / "a.npz")

    return call


def images(source="photo", target="sketch", image_size=4, root=".", text=None, **options):
    def call(folder):
        for name in ("photo/bike/0", "photo/cup/1", "sketch/bike/2", "sketch/cup/3"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (2, 2)).save(folder / f"{name}.png")
        if text is not None:
            (folder / "list.txt").write_bytes(text.encode("utf-8", "surrogateescape"))
            return read_images(folder, source, "list.txt")
        return image_folder(folder / root, source, target, image_size, **options)

    return call


VALUE_ERRORS = [
    lambda folder: images(target_new=folder / "photo/../sketch")(folder),  # trained on
    lambda folder: images(source="photo/bike")(folder),  # without classes
    lambda _: LABELLED.with_target_labelled(0),
    lambda _: LABELLED.with_target_labelled(3),
    read((np.ma.masked_equal(X, X[0, 0, 0]), Y)),
    read((X.astype(str), Y)),
    read(target=np.full(X.shape, 1e300)),
    read((X[:, 0, 0], Y)),
    read(X),
    read((X[:0], Y[:0])),
    read((X, Y[:4])),
    read((X, Y + 0.5)),
    read((X, Y - 1)),
    read((X, NAMED), (X + 9, np.where(Y, NAMED, "dog"))),
    read(test_share=1.5),
    read((X[:3], Y[:3])),  # a class of each
    read((X, Y * 0)),
    read((FRAME, Y), SWAPPED),
    # what is trained on is not tested on
    read(target=(X[::-1], Y)),
    read(target_test=(X[-3:], Y[-3:])),
    changed(target_train=IMAGES[:0]),
    changed(target_test=(IMAGES.astype("float32"), Y[:6])),
    changed(target_labelled=(IMAGES, Y[:6] + 1)),
    changed(class_names=("a",)),
    lambda _: PAIR.oracle(),
    paired(target=None),
    lambda _: dataclasses.replace(LABELLED, target_test=(IMAGES, None)).oracle(),
    lambda _: PAIR.with_target_labelled(1),
    lambda _: LABELLED.with_target_labelled(3),
    joined(),
    joined(OTHER, read(target=(X + 8, Y))(None)),
    joined(OTHER, read()(None)),
    paired(target=X[..., :1]),
    paired((X, Y[:3])),
    paired(X),
    paired(({"a": X, "b": X[:3]}, Y)),
    paired((FRAME, Y), SWAPPED),
    paired(({"a": FRAME}, Y), {"a": SWAPPED}),
    paired((FRAME, Y), FRAME.rename(columns={FRAME.columns[0]: "other"})),
    paired((FRAME.assign(a=pandas.NA), Y), FRAME.assign(a=1)),
    paired((FRAME.assign(a="text"), Y), FRAME.assign(a=1)),
    paired((spoilt_bfloat16(), Y)),
    paired((X, None)),
    paired((X, Y, Y - 1.0)),
    paired((X, Y, X)),
    paired(size=61),
    paired(target_labelled=X),
    paired(num_processes=2, process_id=2),
    paired(num_processes=2, target_labelled=(X, Y)),
    paired(target_labelled=(X, Y, Y)),
    # datasets of batches
    paired((X * 1j, Y), X * 1j),
    paired(iter([])),
    paired(iter([(X, NAMED)])),
    paired(iter([{"image": X, "label": Y}])),
    paired(iter([(X, Y, Y - 1.0)])),
    paired(source_domain=Y[:9]),
    paired(source_domain=Y / 2),
    joined(join_sources([PAIR, PAIR]), PAIR),
    paired(source_domain=Y[:, None]),
    paired((X, np.eye(3)[Y]), balanced=True),
    paired(iter([(X, Y)]), balanced=True),
    paired(iter([(X, Y)]), num_processes=2),
    paired(iter([(X[:1], Y[:1]), (X[:1, :4], Y[:1])]), X),
    table(b=TABLE + "\n1,x,yes,no\n"),
    table(b=TABLE.replace("age", "years")),
    table(label="class"),
    table(TABLE + "4,x,\n"),
    table(b=TABLE + "4,x,maybe\n"),
    table(numeric=["city"]),
    table(numeric=[], categorical=[]),
    table(b=TABLE + "-inf,x,no\n"),
    table(b="age,city,label\n1,\xff,yes\n"),
    file(x=X),
    file(x=X, y=Y, x_test=X),
    file(x=np.array([Trap()], dtype=object), y=Y),
    file(pickle.dumps(Trap())),
    lambda folder: npz(folder / "a.npz", folder / "link.npz"),
    lambda folder: csv_table(folder / "one.csv", folder / "one.csv"),
    images(image_size=0),
    images(classes="all"),
    images(target="photo"),
    images(text=""),
    images(text="photo/cup/1.png 1\nphoto/bike/0.png one"),
    images(text="photo/cup/1.png 1\nphoto/cup/40.png 1"),
    images(text="photo/cup/1.png 1\nphoto/cup/1.png 2"),
    images(text="photo/cup/1.png 1\nphoto/bike/0.png"),
    lambda _: ImageFiles([], 4, channels=2),
]
OTHERS = [
    (paired((X, Y), target_labelled=(X, Y + 0.5)), TypeError),
    (paired(lambda: iter([(X, Y)])), ValueError),
    (paired("photos/"), ValueError),
    (images(image_size=2.5), TypeError),
    (images(target="nowhere"), FileNotFoundError),
    (images(target_test_list="no.txt"), FileNotFoundError),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("refused")
    np.savez(folder / "a.npz", x=X, y=Y)
    (folder / "link.npz").symlink_to(folder / "a.npz")
    (folder / "one.csv").write_text(TABLE)
    return folder


@pytest.mark.parametrize(("call", "error"), [*((one, ValueError) for one in VALUE_ERRORS), *OTHERS])
def test_it_is_refused(folder, call, error):
    with pytest.raises(error):
        call(folder)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_missing_or_infinite_are_refused(value):
    spoilt, weights = X.copy(), np.ones(60)
    spoilt[7, 2, 1] = weights[7] = value
    for call in (
        read((spoilt, Y)),
        read(target=spoilt),
        paired((spoilt, Y)),
        paired(target=spoilt),
        paired(target=[X, spoilt]),
        paired((X, weights)),
        paired((X, Y, weights)),
        paired((LazyArray(spoilt.shape, spoilt.dtype, spoilt.__getitem__), Y), size=60),
        paired((pandas.DataFrame(spoilt[:, :, 1]), Y), pandas.DataFrame(X[:, :, 1])),
        paired((spoilt.astype(object).tolist(), Y)),
    ):
        with pytest.raises(ValueError, match=r"Received"):
            call(None)
