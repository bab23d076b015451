import pickle
import zipfile

import numpy as np
import pytest

from dann.data import arrays, npz

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 8, 2))
Y = np.arange(30) % 3


@pytest.fixture
def folder(tmp_path):
    np.savez(tmp_path / "walk.npz", x=X, y=Y, notes=np.array([None], dtype=object))
    np.savez_compressed(tmp_path / "run.npz", x=X + 1, y=Y)
    return tmp_path


def test_files_give_the_pair_of_their_arrays(folder):
    found = npz(folder / "walk.npz", str(folder / "run.npz"), test_share=0.3, seed=4)
    expected = arrays((X, Y), (X + 1, Y), test_share=0.3, seed=4)
    assert found.name == "walk → run"
    assert found.input_shape == (8, 2)
    for part in ("source_train", "source_test", "target_test"):
        for values, wanted in zip(getattr(found, part), getattr(expected, part), strict=True):
            np.testing.assert_array_equal(values, wanted)
    np.testing.assert_array_equal(found.target_train, expected.target_train)
    np.testing.assert_array_equal(found.target_train_labels, expected.target_train_labels)


def test_a_target_may_have_no_labels(folder):
    expected = npz(folder / "walk.npz", folder / "run.npz")
    np.savez(folder / "run.npz", x=X + 1)
    found = npz(folder / "walk.npz", folder / "run.npz")
    np.testing.assert_array_equal(found.target_train, expected.target_train)
    np.testing.assert_array_equal(found.target_test[0], expected.target_test[0])
    assert found.target_train_labels is found.target_test[1] is None
    for labels in ({}, {"y_test": Y[:5]}):
        np.savez(folder / "run.npz", x=X + 1, x_test=X[:5] + 1, **labels)
        found = npz(folder / "walk.npz", folder / "run.npz")
        np.testing.assert_array_equal(found.target_train, (X + 1).astype("float32"))
        assert (found.target_test[1] is None) != bool(labels)


def test_a_test_set_of_the_source_is_kept(folder):
    np.savez(folder / "walk.npz", x=X, y=Y, x_test=X[:4], y_test=Y[:4])
    found = npz(folder / "walk.npz", folder / "run.npz")
    assert (len(found.source_train[1]), len(found.source_test[1])) == (30, 4)


def test_classes_and_domains_can_be_named(folder):
    arguments = {"source_name": "slow", "target_name": "fast", "class_names": ["a", "b", "c"]}
    found = npz(folder / "walk.npz", folder / "run.npz", **arguments)
    assert (found.name, found.class_names) == ("slow → fast", ("a", "b", "c"))
    labels = np.array(["up", "down", "flat"])[Y]
    for name in ("walk", "run"):
        np.savez(folder / f"{name}.npz", x=X, y=labels)
    assert npz(folder / "walk.npz", folder / "run.npz").class_names == ("down", "flat", "up")


@pytest.mark.parametrize("keys", [["y"], ["x"], ["data"], ["x", "y", "x_test"]])
def test_a_file_that_lacks_a_key_is_refused(folder, keys):
    np.savez(folder / "walk.npz", **dict.fromkeys(keys, Y))
    with pytest.raises(ValueError, match="source"):
        npz(folder / "walk.npz", folder / "run.npz")


def test_one_file_as_both_domains_is_refused(folder):
    (folder / "link.npz").symlink_to(folder / "walk.npz")
    for name in ("walk.npz", "link.npz"):
        with pytest.raises(ValueError, match="source and the target must be different files"):
            npz(folder / "walk.npz", folder / name)


class Trap:
    def __reduce__(self):
        return pytest.fail, ("a pickle was run",)


def _array_file(path):
    with path.open("wb") as file:
        np.save(file, X)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"x,y\n1,2\n"),
        lambda path: path.write_bytes(path.read_bytes()[:200]),
        lambda path: path.write_bytes(pickle.dumps(Trap())),
        lambda path: np.savez(path, x=np.array([Trap()], dtype=object)),
        _array_file,
    ],
)
def test_a_file_of_another_format_is_refused_and_nothing_in_it_is_run(folder, spoil):
    spoil(folder / "run.npz")
    with pytest.raises((ValueError, TypeError, EOFError, zipfile.BadZipFile)):
        npz(folder / "walk.npz", folder / "run.npz")


def test_a_file_that_is_not_there_is_named(folder):
    with pytest.raises(FileNotFoundError, match="no.npz"):
        npz(folder / "walk.npz", folder / "no.npz")
