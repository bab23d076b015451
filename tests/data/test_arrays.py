import keras
import numpy as np
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


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("target", "tests", "message"),
    [
        (lambda x: x, {}, "The source and the target must be different arrays: nothing may"),
        (lambda x: x[::-1, :, :1], {}, r"Received: inputs \(60, 5, 2\) and \(60, 5, 1\) that sh"),
        (lambda x: x + 1, {"target": "target"}, "The target test and the target must be"),
        (lambda x: x + 1, {"target": "source"}, "The target test and the source must be"),
        (lambda x: x + 1, {"source": "source"}, "The source test and the source must be"),
        (lambda x: x + 1, {"source": "target"}, "The source test and the target must be"),
        (lambda x: x, {"source": "other"}, "The target and the source must be different"),
    ],
)
def test_training_and_test_sets_share_no_memory(dtype, target, tests, message):
    inputs = {"source": X.astype(dtype), "other": X.astype(dtype)}
    inputs["target"] = target(inputs["source"])
    given = {f"{name}_test": (inputs[whose][-3:], Y[-3:]) for name, whose in tests.items()}
    with pytest.raises(ValueError, match=message):
        arrays((inputs["source"], Y), (inputs["target"], Y), **given)


def test_a_list_is_one_array_too():
    rows = X.tolist()
    with pytest.raises(ValueError, match="The source and the target must be different arrays"):
        arrays((rows, Y), (rows, Y))


def test_parts_of_one_array_without_overlap_are_apart():
    whole = np.concatenate([X, X + 1])
    domains = arrays((whole[::2], Y), (whole[1::2], Y))
    assert row_set(domains.source_train[0]) | row_set(domains.source_test[0]) == row_set(whole[::2])
    drawn = arrays((X, Y), (X, Y), source_test=(COPY, Y), target_test=(COPY, Y))
    np.testing.assert_array_equal(drawn.target_train, X)


def broken(value):
    inputs = X.astype("float64")
    inputs[3, 2, 1] = inputs[5, 0, 0] = value
    return inputs


@pytest.mark.parametrize(
    ("source", "target", "arguments", "message"),
    [
        ((broken(np.nan), Y), X, {}, "source must be finite in float32. Received: 2 of 600 values"),
        ((X, Y), broken(np.inf), {}, "target must be finite in float32. Received: 2 of 600 values"),
        ((X, Y), broken(1e300), {}, "target must be finite in float32. Received: 2 of 600 values"),
        ((X.astype(str), Y), X, {}, r"source must be numbers. Received: <U\d+"),
        ((X[:, 0, 0], Y), X, {}, r"source .*shape \(batch, size, ...\). Received: shape \(60,\)"),
        (X, X, {}, r"The source must be `\(inputs, labels\)`. Received: ndarray"),
        ((X[:0], Y[:0]), X, {}, r"The source holds no examples. .* array of shape \(0, 5, 2\)"),
        ((X, Y), ([], []), {}, r"The target holds no examples. .* array of shape \(0,\)"),
        ((X, Y), (X, Y, Y), {}, r"The target must be `.*` or inputs. Received: tuple"),
        ((X, Y[:4]), X, {}, "The source must have one label .*Received: 60 inputs and 4 labels"),
        ((X, np.eye(3)[Y]), X, {}, r"Labels .*shape \(batch,\). Received: shape \(60, 3\)"),
        ((X, Y + 0.5), X, {}, r"Labels of the source must be .*Received: float64"),
        ((X, np.array([None] * 60)), X, {}, "Labels of the source must be integers or strings"),
        ((X, Y), COPY, {}, "needs a few labelled examples, or a test set .*Received: no labels"),
        ((X, Y), (COPY, np.full(60, -1)), {}, "Received: no labels of the target"),
        ((X, Y - 1), (X, Y), {}, "Every example of the source must .*Received: 20 without one"),
        ((X, NAMED), (X, Y), {}, r"in none. Received: strings in \['source'\], integers in \['ta"),
        ((X, NAMED), (X, STRANGE), {}, r"among .*\('ant', 'bee', 'cat'\). .*\['dog', 'eel'\]"),
        ((X, Y), (X, Y * 2), {}, "target .*below 3, .*or -1 if unknown.*Received: 4"),
        ((X, Y), (X, Y - 3), {}, r"or -1 if unknown. Received: -3, -2"),
        ((X, Y), (X, Y), {"num_classes": 2}, "below 2, .*Received: 2"),
        ((X, Y), (COPY[:, :4], Y), {}, r"one shape and type.*Received: target train with \(4, 2\)"),
        ((X, Y), (X, Y), {"source_test": X}, r"The source test must be `\(inputs, labels\)`. "),
        ((X, Y), X, {"target_test": (X, Y - 1)}, "the target test must have .*: 20 without one"),
        ((X, Y), (COPY, Y), {"test_share": 1.5}, "Received: test_share=1.5"),
        (
            (X, Y),
            (X, Y),
            {"source_test": (COPY, Y), "target_test": (COPY, Y), "test_share": 0},
            "Received: test_share=0",
        ),
        ((X, Y * 0), (X, Y * 0), {}, "`num_classes` must be .*at least 2. Received: num_classes=1"),
        ((X, NAMED[:1].repeat(60)), X, {}, "at least 2. Received: num_classes=1"),
        ((X, Y % 2), (X, Y % 2), {"class_names": ["a", "a"]}, r"a name of its own.*\('a', 'a'\)"),
    ],
)
def test_bad_input_is_refused(source, target, arguments, message):
    with pytest.raises(ValueError, match=message):
        arrays(source, target, **arguments)


@pytest.mark.parametrize("kind", ["int64", "uint32", "uint64"])
def test_one_odd_label_does_not_make_billions_of_classes(kind):
    labels = Y.astype(kind)
    labels[0] = 2_147_483_648
    message = r"give their number as `num_classes`. Received: a label of 2147483648 among the 60 "
    with pytest.raises(ValueError, match=message):
        arrays((X, labels), X)


def test_many_classes_are_counted_up_to_a_thousand_and_then_given():
    labels = np.where(Y == 2, 999, Y)
    assert arrays((X, labels), (COPY, labels)).num_classes == 1000
    with pytest.raises(ValueError, match="as `num_classes`. Received: a label of 1000 among"):
        arrays((X, labels + (labels == 999)), (COPY, labels))
    assert arrays((X, labels + 1), (COPY, labels), num_classes=1001).num_classes == 1001
