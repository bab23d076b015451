import numpy as np
import pytest
from support.arrays import assert_all_equal, assert_same_inputs, collect_inputs

from dann.data import arrays, npz

X = np.random.default_rng(0).normal(size=(60, 5, 2)).astype("float32")
Y = np.arange(60) % 3
NAMED = np.array(["cat", "ant", "bee"])[Y]


def row_set(inputs):
    return {row.tobytes() for row in np.asarray(inputs)}


def test_every_example_is_in_one_part_with_its_label():
    domains = arrays((X, Y), (X + 9, Y[::-1]), source_name="a", target_name="b")
    assert domains.name == "a → b"
    assert (domains.num_classes, domains.class_names) == (3, None)
    np.testing.assert_array_equal(np.bincount(domains.source_test[1]), [4, 4, 4])
    target_train = domains.target_train, domains.target_train_labels
    for train, test, all_inputs, labels in (
        (domains.source_train, domains.source_test, X, Y),
        (target_train, domains.target_test, X + 9, Y[::-1]),
    ):
        assert (len(train[1]), len(test[1])) == (48, 12)
        assert row_set(train[0]) | row_set(test[0]) == row_set(all_inputs)
        expected = {row.tobytes(): label for row, label in zip(all_inputs, labels, strict=True)}
        for inputs, part_labels in (train, test):
            assert part_labels.dtype == np.int64
            np.testing.assert_array_equal(part_labels, [expected[row.tobytes()] for row in inputs])


@pytest.mark.parametrize("labels", [Y, NAMED], ids=["integers", "names"])
def test_target_labels_change_neither_inputs_nor_classes(labels):
    expected = arrays((X, labels), (X + 9, labels))
    one_class = np.full_like(labels, labels[0])
    for target_labels in (np.random.default_rng(0).permutation(labels), one_class):
        domains = arrays((X, labels), (X + 9, target_labels))
        assert_same_inputs(domains, expected)
        assert (domains.num_classes, domains.class_names) == (3, expected.class_names)


@pytest.mark.parametrize(("labels", "unknown"), [(Y, -1), (NAMED, "")])
def test_target_test_set_has_only_labeled_examples(labels, unknown):
    partly = labels.copy()
    partly[10:] = unknown
    domains = arrays((X, labels), (X + 9, partly))
    assert len(domains.target_test[1]) == 2
    assert row_set(domains.target_test[0]) < row_set(X[:10] + 9)
    assert np.bincount(domains.target_train_labels + 1)[0] == 50


def test_target_may_have_no_labels():
    expected = arrays((X, NAMED), (X + 9, NAMED))
    for target in (X + 9, (X + 9, None), (X + 9, [""] * 60)):
        domains = arrays((X, NAMED), target)
        assert domains.target_train_labels is domains.target_test[1] is None
        assert_same_inputs(domains, expected)
        assert [len(batch) for batch in domains.test_batches("target", 8)] == [1, 1]


def test_numbers_with_fractions_are_labels_of_regression(capsys):
    numbers, partly = np.arange(60) / 7 - 1, np.arange(60.0)
    partly[10:] = np.nan
    domains = arrays((X, numbers), (X + 9, partly))
    assert "task=regression" in capsys.readouterr().out
    assert domains.is_regression
    assert len(domains.target_test[1]) == 2  # of the labeled examples
    assert np.isnan(domains.target_train_labels).sum() == 50
    oracle = domains.oracle().source_train
    np.testing.assert_array_equal(oracle[0], X[(oracle[1]).astype(int)] + 9)
    labels = domains.source_train[1]
    texts = arrays((X, numbers.astype(str)), (X + 9, [""] * 60))
    np.testing.assert_allclose(texts.source_train[1], labels)
    assert texts.target_train_labels is texts.target_test[1] is None
    assert arrays((X, Y), (X + 9, -Y), task="regression").target_train_labels.min() == -2
    names = arrays((X, (Y / 2).astype(str)), X + 9, task="classification").class_names
    assert names == ("0.0", "0.5", "1.0")


def test_class_names_set_the_order_of_classes():
    names = ["cat", "bee", "dog", "ant"]
    domains = arrays((X, NAMED), (X + 9, NAMED), class_names=names, source_test=(X + 1, NAMED))
    assert (domains.num_classes, domains.class_names) == (4, tuple(names))
    np.testing.assert_array_equal(np.array(names)[domains.source_test[1]], NAMED)
    assert arrays((X, Y), (X + 9, Y), class_names=["a", "b", "c"]).class_names == ("a", "b", "c")
    assert arrays((X, np.array(["10", "-1", "9"])[Y]), X + 9).class_names == ("-1", "9", "10")


@pytest.mark.parametrize("dtype", ["float64", "float16", "uint8"])
def test_only_wide_floats_change_their_type(dtype):
    domains = arrays((X.astype(dtype), Y), (X.astype(dtype).view(np.memmap), Y))
    expected_dtype = np.dtype("float32" if dtype == "float64" else dtype)
    types = {(type(inputs), inputs.dtype) for inputs in collect_inputs(domains)}
    # Memory maps are read, because Keras accepts only arrays.
    assert types == {(np.ndarray, expected_dtype)}


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
    assert_all_equal(collect_inputs(domains), [X, X[:4], X + 1, X[:4] + 1])
    np.testing.assert_array_equal(domains.source_test[1], Y[:4])
    assert (domains.target_test[1] is None) != bool(labels)


def test_nuisances_include_the_test_set(tmp_path):
    site, test = np.array(["b", "a"])[Y % 2], {"x_test": X[:4], "y_test": Y[:4]}
    # The name of a nuisance may end in _test.
    test |= {"drug_test": site, "drug_test_test": site[:4]}
    np.savez(tmp_path / "a.npz", x=X, y=Y, **test)
    domains = npz(tmp_path / "a.npz", nuisances=["drug_test"])
    assert domains.nuisances.kinds == {"drug_test": 2}
    for part, size in (("train", 60), ("test", 4)):
        values = getattr(domains.nuisances, part)["drug_test"]
        np.testing.assert_array_equal(values, 1 - Y[:size] % 2)
