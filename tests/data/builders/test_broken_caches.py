"""Prepared data sets that break in the cache: each is named in one line and made again."""

import itertools
import json
import shutil

import numpy as np
import pytest
from support import corruptions

from dann.data import tfds_pair
from dann.data.builders.prepared import prepared

WAYS = (
    corruptions.flip_a_bit,
    corruptions.cut,
    corruptions.zero_a_block,
    corruptions.zero_all,
    corruptions.empty,
    corruptions.append,
)
INFO, FEATURES = "dataset_info.json", "features.json"
TRAIN = "digits-train.tfrecord-00000-of-00001"
DECODED = "decoded/train-8x8x1.npz"


def load(folder):
    return tfds_pair("digits", "digits", cache_dir=str(folder))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A cache of digits, and what is in it."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, load(folder)


@pytest.fixture
def copy(whole, tmp_path):
    shutil.copytree(whole[0] / "digits", tmp_path / "cache/digits")
    return tmp_path / "cache"


def check_made_again(folder, expected, capsys, named):
    """Loads the data set, which is as it was, with one line about what was broken."""
    capsys.readouterr()
    found = load(folder)
    told = [line for line in capsys.readouterr().out.splitlines() if "is made again" in line]
    assert len(told) == 1
    assert str(named) in told[0]
    np.testing.assert_array_equal(found.source_train[0], expected.source_train[0])
    np.testing.assert_array_equal(found.source_train[1], expected.source_train[1])
    np.testing.assert_array_equal(found.source_test[0], expected.source_test[0])
    load(folder)
    assert "made again" not in capsys.readouterr().out
    assert [path.name for path in (folder / "digits").iterdir()] == ["2.0.0"]


def every_breakage():
    """Each file with each way to break it; a few of them run always."""
    often = {(INFO, "flip_a_bit"), (FEATURES, "cut"), (TRAIN, "zero_a_block"), (TRAIN, "cut")}
    for name, way in itertools.product((INFO, FEATURES, TRAIN, DECODED), WAYS):
        always = name == DECODED or (name, way.__name__) in often
        marks = () if always else pytest.mark.slow
        yield pytest.param(name, way, id=f"{name}-{way.__name__}", marks=marks)


@pytest.mark.parametrize(("name", "way"), list(every_breakage()))
def test_a_file_that_has_changed_is_made_again(copy, whole, capsys, name, way):
    path = copy / "digits/2.0.0" / name
    content = path.read_bytes()
    path.write_bytes(way(content, np.random.default_rng(5)))
    named = path if name == DECODED else path.parent
    if name == DECODED and way is corruptions.append:
        load(copy)  # what follows an archive does not belong to it
        return
    check_made_again(copy, whole[1], capsys, named)


def test_a_file_that_is_missing_is_made_again(copy, whole, capsys):
    (copy / "digits/2.0.0" / FEATURES).unlink()
    check_made_again(copy, whole[1], capsys, copy / "digits/2.0.0")


def test_an_empty_folder_of_a_version_is_made_again(copy, whole, capsys):
    shutil.rmtree(copy / "digits/2.0.0")
    (copy / "digits/2.0.0").mkdir()
    check_made_again(copy, whole[1], capsys, "it has no dataset_info.json")


@pytest.mark.parametrize("key", ["name", "version"])
def test_the_notes_of_another_data_set_are_made_again(copy, whole, capsys, key):
    path = copy / "digits/2.0.0" / INFO
    path.write_text(json.dumps({**json.loads(path.read_text()), key: "3.0.0"}))
    (path.parent / "checksums.json").unlink()  # as an older version of this package left it
    check_made_again(copy, whole[1], capsys, path.parent)


@pytest.mark.parametrize(
    "arrays",
    [
        {"images": np.zeros((1198, 8, 8, 1), "uint8")},
        {"images": np.zeros((9, 8, 8, 1), "uint8"), "labels": np.zeros(9, int)},
        {"images": np.zeros((1198, 8, 8, 3), "uint8"), "labels": np.zeros(1198, int)},
        {"images": np.zeros((1198, 8, 8, 1), "float32"), "labels": np.zeros(1198, int)},
    ],
    ids=["without labels", "fewer", "of another form", "of another type"],
)
def test_other_arrays_in_the_cache_are_made_again(copy, whole, capsys, arrays):
    np.savez(copy / "digits/2.0.0" / DECODED, **arrays)
    check_made_again(copy, whole[1], capsys, "it holds other arrays")


def test_a_data_set_of_an_older_version_of_this_package_is_sealed(copy, whole, capsys):
    seal = copy / "digits/2.0.0/checksums.json"
    seal.unlink()
    load(copy)
    assert "made again" not in capsys.readouterr().out
    assert TRAIN in json.loads(seal.read_text())


def test_broken_records_of_an_older_version_are_reported_in_one_line(copy):
    path = copy / "digits/2.0.0" / TRAIN
    path.write_bytes(corruptions.flip_a_bit(path.read_bytes(), np.random.default_rng(0)))
    (path.parent / "checksums.json").unlink()
    shutil.rmtree(path.parent / "decoded")
    with pytest.raises(ValueError, match=r"delete their folder .*Received: .*2.0.0, which is brok"):
        load(copy)


def test_a_broken_data_set_whose_raw_files_are_gone_stays_as_it_was(raw_files, tmp_path):
    cache = tmp_path / "cache"
    path = prepared("mnist", str(cache), str(raw_files)).data_path / INFO
    path.write_bytes(b"{")
    (raw_files / "mnist/train-images-idx3-ubyte.gz").write_bytes(b"broken too")
    with pytest.raises(ValueError, match=r"mnist_files/1.0.0 is broken, .*cannot be made again"):
        prepared("mnist", str(cache), str(raw_files))
    assert path.read_bytes() == b"{"
    assert [entry.name for entry in (cache / "mnist_files").iterdir()] == ["1.0.0"]
