import numpy as np
import pytest
from support.domains import assert_same_inputs

from dann.data import arrays, npz

X = np.random.default_rng(0).normal(size=(30, 8, 2))
Y = np.arange(30) % 3


@pytest.fixture
def files(tmp_path):
    np.savez(tmp_path / "walk.npz", x=X, y=Y, notes=np.array([None], dtype=object))
    np.savez_compressed(tmp_path / "run.npz", x=X + 1, y=Y)
    return tmp_path / "walk.npz", tmp_path / "run.npz"


def test_files_equal_their_arrays(files):
    domains = npz(files[0], str(files[1]), test_share=0.3, seed=4, class_names=["a", "b", "c"])
    expected = arrays((X, Y), (X + 1, Y), test_share=0.3, seed=4)
    assert (domains.name, domains.class_names) == ("walk → run", ("a", "b", "c"))
    assert_same_inputs(domains, expected)
    for part in ("source_train", "source_test", "target_test"):
        np.testing.assert_array_equal(getattr(domains, part)[1], getattr(expected, part)[1])
    np.testing.assert_array_equal(domains.target_train_labels, expected.target_train_labels)


@pytest.mark.parametrize("labels", [{}, {"y_test": Y[:4]}])
def test_stored_test_set_is_used(files, labels):
    np.savez(files[0], x=X, y=Y, x_test=X[:4], y_test=Y[:4])
    np.savez(files[1], x=X + 1, x_test=X[:4] + 1, **labels)
    domains = npz(*files)
    assert (len(domains.source_train[1]), len(domains.source_test[1])) == (30, 4)
    np.testing.assert_array_equal(domains.target_train, (X + 1).astype("float32"))
    assert (domains.target_test[1] is None) != bool(labels)


def test_nuisances_include_the_test_set(tmp_path):
    site, test = np.array(["b", "a"])[Y % 2], {"x_test": X[:4], "y_test": Y[:4]}
    # The name of a nuisance may end in _test.
    test |= {"drug_test": site, "drug_test_test": site[:4]}
    np.savez(tmp_path / "a.npz", x=X, y=Y, **test)
    domains = npz(tmp_path / "a.npz", nuisances=["drug_test"])
    assert domains.nuisances.kinds == {"drug_test": 2}
    for part, size in (("train", 30), ("test", 4)):
        values = getattr(domains.nuisances, part)["drug_test"]
        np.testing.assert_array_equal(values, 1 - Y[:size] % 2)
