import keras
import numpy as np
import pandas
import pytest

import dann
from dann.data import arrays

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 5, 2)).astype("float32")
Y = np.arange(60) % 3
COPY = X.copy()  # as another domain
NAMED = np.array(["cat", "ant", "bee"])[Y]
STRANGE = np.array(["eel", "ant", "dog"])[Y]


def row_set(inputs):
    return {row.tobytes() for row in np.asarray(inputs)}


def inputs_of(domains):
    return {
        "source train": domains.source_train[0],
        "source test": domains.source_test[0],
        "target train": domains.target_train,
        "target test": domains.target_test[0],
    }


def test_every_example_is_in_one_part_with_its_label():
    domains = arrays((X, Y), (X + 9, Y[::-1]), source_name="a", target_name="b")
    assert domains.name == "a → b"
    assert (domains.num_classes, domains.class_names) == (3, None)
    assert domains.target_train_labels is not None
    target_train = domains.target_train, domains.target_train_labels
    for train, test, whole, labels in (
        (domains.source_train, domains.source_test, X, Y),
        (target_train, domains.target_test, X + 9, Y[::-1]),
    ):
        assert (len(train[1]), len(test[1])) == (48, 12)
        assert row_set(train[0]) | row_set(test[0]) == row_set(whole)
        expected = {row.tobytes(): label for row, label in zip(whole, labels, strict=True)}
        for inputs, found in (train, test):
            assert found.dtype == np.int64
            np.testing.assert_array_equal(found, [expected[row.tobytes()] for row in inputs])


def test_the_source_is_split_by_its_classes():
    np.testing.assert_array_equal(np.bincount(arrays((X, Y), (COPY, Y)).source_test[1]), [4, 4, 4])


@pytest.mark.parametrize("labels", [Y, NAMED], ids=["integers", "names"])
def test_the_targets_labels_change_no_inputs(labels):
    expected = inputs_of(arrays((X, labels), (X + 9, labels)))
    for seed in range(5):
        permuted = np.random.default_rng(seed).permutation(labels)
        domains = arrays((X, labels), (X + 9, permuted))
        for part, inputs in inputs_of(domains).items():
            np.testing.assert_array_equal(inputs, expected[part], err_msg=part)
        assert domains.num_classes == 3


def test_the_targets_labels_do_not_decide_the_classes():
    one_class = np.full(60, "bee")
    domains = arrays((X, NAMED), (COPY, one_class))
    assert domains.class_names == ("ant", "bee", "cat")
    np.testing.assert_array_equal(domains.target_test[1], np.ones(12))
    assert arrays((X, Y), (COPY, np.zeros(60, int))).num_classes == 3


def test_another_seed_draws_other_test_sets():
    first, again, other = (arrays((X, Y), (COPY, Y), seed=seed) for seed in (0, 0, 1))
    for part, inputs in inputs_of(first).items():
        np.testing.assert_array_equal(inputs, inputs_of(again)[part])
        assert not np.array_equal(inputs, inputs_of(other)[part])


def test_test_sets_that_are_given_are_kept_and_nothing_is_drawn():
    domains = arrays((X, Y), X + 1, source_test=(COPY[:7], Y[:7]), target_test=(COPY[7:9], Y[7:9]))
    np.testing.assert_array_equal(domains.source_train[0], X)
    np.testing.assert_array_equal(domains.source_test[1], Y[:7])
    np.testing.assert_array_equal(domains.target_train, X + 1)
    np.testing.assert_array_equal(domains.target_test[0], X[7:9])
    assert domains.target_train_labels is None


@pytest.mark.parametrize(("labels", "unknown"), [(Y, -1), (NAMED, "")])
def test_only_labelled_examples_of_the_target_are_tested_on(labels, unknown):
    partly = labels.copy()
    partly[10:] = unknown
    domains = arrays((X, labels), (X + 9, partly))
    assert len(domains.target_test[1]) == 2
    assert row_set(domains.target_test[0]) < row_set(X[:10] + 9)
    assert len(domains.target_train) == 58
    assert np.count_nonzero(domains.target_train_labels == -1) == 50
    assert np.count_nonzero(domains.target_train_labels >= 0) == 8


def test_class_names_can_be_given_in_any_order():
    names = ["cat", "bee", "dog", "ant"]
    domains = arrays((X, NAMED), (COPY, NAMED), class_names=names, source_test=(COPY + 1, NAMED))
    assert (domains.num_classes, domains.class_names) == (4, tuple(names))
    np.testing.assert_array_equal(np.array(names)[domains.source_test[1]], NAMED)
    assert arrays((X, Y), (COPY, Y), class_names=["a", "b", "c"]).class_names == ("a", "b", "c")
    assert arrays((X, Y), (COPY, Y), num_classes=5).num_classes == 5


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("float64", "float32"),
        ("float16", "float16"),
        ("uint8", "uint8"),
        ("int64", "int64"),
        ("bool", "bool"),
    ],
)
def test_types_of_inputs(given, kept):
    domains = arrays((X.astype(given), Y), (X.astype(given), Y))
    assert {inputs.dtype for inputs in inputs_of(domains).values()} == {np.dtype(kept)}


@pytest.mark.parametrize("dtype", ["bool", "int64", "uint8", "float64"])
def test_a_keras_model_trains_on_any_type(dtype):
    domains = arrays((X.astype(dtype), Y == 1), (X.astype(dtype), Y == 1))
    model = dann.DANN(dann.networks.mlp_backbone((5, 2), hidden_units=(4,)), num_classes=2)
    model.compile(keras.optimizers.SGD(1e-3))
    history = model.fit(domains.batches(16), steps_per_epoch=2, shuffle=False, verbose=0)
    assert np.isfinite(history.history["label/loss"]).all()


def test_a_target_may_have_no_labels():
    expected = inputs_of(arrays((X, NAMED), (X + 9, NAMED)))
    for target in (X + 9, (X + 9, None), (X + 9, [""] * 60)):
        domains = arrays((X, NAMED), target)
        assert domains.target_train_labels is domains.target_test[1] is None
        for part, inputs in inputs_of(domains).items():
            np.testing.assert_array_equal(inputs, expected[part], err_msg=part)
        batches = list(domains.test_batches("target", 8))
        assert [len(batch) for batch in batches] == [1, 1]


@pytest.mark.parametrize(
    ("target", "tests"),
    [
        (lambda x: x, {}),
        (lambda x: x[::-1, :, :1], {}),
        (lambda x: x + 1, {"target": "target"}),
        (lambda x: x + 1, {"target": "source"}),
        (lambda x: x + 1, {"source": "source"}),
        (lambda x: x + 1, {"source": "target"}),
        (lambda x: x, {"source": "other"}),
    ],
)
def test_training_and_test_sets_share_no_memory(target, tests):
    inputs = {"source": X.astype("float64"), "other": X.astype("float64")}
    inputs["target"] = target(inputs["source"])
    given = {f"{name}_test": (inputs[whose][-3:], Y[-3:]) for name, whose in tests.items()}
    with pytest.raises(
        ValueError, match="must be different arrays, because nothing may be tested on"
    ):
        arrays((inputs["source"], Y), (inputs["target"], Y), **given)


def test_parts_of_one_array_without_overlap_are_apart():
    whole = np.concatenate([X, X + 1])
    domains = arrays((whole[::2], Y), (whole[1::2], Y))
    assert row_set(domains.source_train[0]) | row_set(domains.source_test[0]) == row_set(whole[::2])
    drawn = arrays((X, Y), (X, Y), source_test=(COPY, Y), target_test=(COPY, Y))
    np.testing.assert_array_equal(drawn.target_train, X)


def test_frames_whose_columns_do_not_line_up_are_refused():
    frame = pandas.DataFrame(X[:, :, 0], columns=list("abcde"))
    domains = arrays((frame, Y), (frame + 9, pandas.Series(Y)))
    assert row_set(domains.target_train) < row_set(X[:, :, 0] + 9)
    for other in (frame[list("ebcda")], frame.rename(columns={"b": "z"})):
        with pytest.raises(ValueError, match="columns"):
            arrays((frame, Y), other + 9)


def broken(value):
    inputs = X.astype("float64")
    inputs[3, 2, 1] = inputs[5, 0, 0] = value
    return inputs


@pytest.mark.parametrize(
    ("source", "target", "arguments"),
    [
        ((broken(np.nan), Y), X, {}),
        ((X, Y), broken(np.inf), {}),
        ((X, Y), broken(1e300), {}),
        ((np.ma.masked_equal(X, X[0, 0, 0]), Y), X, {}),
        ((X.astype(str), Y), X, {}),
        ((X[:, 0, 0], Y), X, {}),
        (X, X, {}),
        ((X[:0], Y[:0]), X, {}),
        ((X, Y), ([], []), {}),
        ((X, Y), (X, Y, Y), {}),
        ((X, Y[:4]), X, {}),
        ((X, np.eye(3)[Y]), X, {}),
        ((X, Y + 0.5), X, {}),
        ((X, np.array([None] * 60)), X, {}),
        ((X, Y - 1), (X, Y), {}),
        ((X, NAMED), (X, Y), {}),
        ((X, NAMED), (X, STRANGE), {}),
        ((X, Y), (X, Y * 2), {}),
        ((X, Y), (X, Y - 3), {}),
        ((X, Y), (X, Y), {"num_classes": 2}),
        ((X, Y), (COPY[:, :4], Y), {}),
        ((X, Y), (X, Y), {"source_test": X}),
        ((X, Y), X + 1, {"target_test": (X + 2, Y - 1)}),
        ((X, Y), (COPY, Y), {"test_share": 1.5}),
        ((X, Y * 0), (X, Y * 0), {}),
        ((X, NAMED[:1].repeat(60)), X, {}),
    ],
)
def test_bad_input_is_refused(source, target, arguments):
    with pytest.raises(ValueError, match=r"Received|inhomogeneous"):
        arrays(source, target, **arguments)
