"""Standardization agrees with NumPy, per column or channel, and is saved."""

import numpy as np
import pandas
import pytest
from sklearn.model_selection import GroupShuffleSplit
from support.arrays import collect_inputs

from dann.data import DomainPair, Standardizer, arrays, csv_table, join_sources, npz
from dann.data.lazy_array import LazyArray
from dann.data.splits import hold_out

RNG = np.random.default_rng(0)
SCALES = np.array([0.01, 1.0, 300.0])
SOURCE = (RNG.normal(size=(300, 4, 3)) * SCALES + 5).astype("float32")  # more than one chunk
TARGET = (RNG.normal(size=(280, 4, 3)) * 7 - SCALES).astype("float32")
TEST = TARGET[:50] + 1
LABELS = np.arange(300) % 2
BOTH = np.concatenate([SOURCE, TARGET])
EXAMPLES = {"source": [SOURCE] * 2, "each": [SOURCE, TARGET], "both": [BOTH] * 2}


def standardize(values, examples):
    """Returns `(values - mean) / std` of the last axis of the examples."""
    rows = examples.reshape(-1, values.shape[-1]).astype("float64")
    return (values - rows.mean(axis=0)) / rows.std(axis=0)


@pytest.mark.parametrize("mode", EXAMPLES)
@pytest.mark.parametrize("kind", ["table", "series", "images"])
def test_pair_has_statistics_of_its_training_examples(kind, mode):
    shape = {"table": (3,), "series": (4, 3), "images": (2, 2, 3)}[kind]
    source, target, test = (
        x[:, 0] if kind == "table" else x.reshape(len(x), *shape) for x in (SOURCE, TARGET, TEST)
    )
    domains = DomainPair("a", "b", (source, LABELS), (source, LABELS), target, (test, None), 2)
    result = domains.standardize(mode)
    first, second = EXAMPLES[mode]
    if kind == "table":
        first, second = first[:, 0], second[:, 0]
    parts = [result.source_train[0], result.source_test[0], result.target_train]
    values = [(source, first), (source, first), (target, second), (test, second)]
    for part, (inputs, examples) in zip([*parts, result.target_test[0]], values, strict=True):
        assert part.dtype == np.float32
        np.testing.assert_allclose(part, standardize(inputs, examples), rtol=1e-5, atol=1e-5)
    assert result.source_train[1] is LABELS


def test_saved_statistics_transform_new_examples_alike(tmp_path):
    frame = pandas.DataFrame(TARGET[:, 0], columns=["a", "b", "c"])
    standardizer = Standardizer("each").fit(frame + 1, frame)
    standardizer.save(tmp_path / "standardizer.json")
    loaded = Standardizer.load(tmp_path / "standardizer.json")
    for domain in ("source", "target"):
        expected = standardizer.transform(TEST[:, 0], domain)
        np.testing.assert_array_equal(loaded.transform(TEST[:, 0], domain), expected)
    with pytest.raises(ValueError, match=r"in the same order: \['a', 'b', 'c'\]"):
        loaded.transform(frame[["b", "a", "c"]])
    domains = arrays((SOURCE[:, 0], LABELS), TARGET[:, 0]).apply_standardizer(loaded)
    assert domains.standardizer is loaded


def test_lazy_inputs_are_standardized_when_they_are_read():
    pixels = RNG.integers(0, 256, (40, 6, 5, 3)).astype("uint8")
    lazy, labels = LazyArray(pixels.shape, pixels.dtype, pixels.__getitem__), np.arange(40) % 2
    domains = DomainPair("a", "b", (lazy, labels), (lazy, labels), lazy, (lazy, labels), 2)
    domains = domains.standardize("each")
    assert isinstance(domains.target_train, LazyArray)
    expected = standardize(pixels, pixels)
    np.testing.assert_allclose(domains.target_train[:], expected, rtol=1e-5, atol=1e-5)
    batch, _ = domains.batches(4, seed=0)[0]
    assert batch["target"].dtype == np.float32


def test_each_source_can_have_its_own_statistics():
    target = TARGET[:, 0]
    pairs = [arrays((SOURCE[:, 0] * scale, LABELS), target) for scale in (1, 10)]
    joined = join_sources([pair.standardize("each") for pair in pairs])
    for number in range(2):
        inputs = joined.source_train[0][joined.source_domain == number]
        np.testing.assert_allclose(inputs.std(axis=0), 1, rtol=1e-5)


GENERATOR = np.random.default_rng(0)
PEOPLE = GENERATOR.integers(0, 12, 150)
X = np.column_stack([PEOPLE, GENERATOR.normal(size=150)])
Y = np.arange(150) % 3


def sides(domains):
    """Returns the people in each training and test set, read from the inputs."""
    return [set(np.round(x[:, 0]).astype(int).tolist()) for x in collect_inputs(domains)]


@pytest.mark.parametrize("share", [0.05, 0.2, 0.9])
def test_groups_are_split_whole(share):
    people = PEOPLE + 50
    shifted = np.column_stack([people, X[:, 1]])
    domains = arrays((X, Y), (shifted, Y), groups=(PEOPLE, people), test_share=share)
    for train, test, all_people in ((*sides(domains)[:2], PEOPLE), (*sides(domains)[2:], people)):
        assert not train & test
        assert train | test == set(all_people.tolist())
        assert len(test) == int(np.ceil(share * 12))
    assert len(domains.source_train[1]) + len(domains.source_test[1]) == 150


def test_group_draw_ignores_labels():
    names = np.array([f"person {number}" for number in PEOPLE])
    (_, expected), *_ = GroupShuffleSplit(1, test_size=0.3, random_state=4).split(X, groups=names)
    for target in ((X + 50, labels) for labels in (Y, Y[::-1], None)):
        domains = arrays((X, Y), target, groups=(None, names), test_share=0.3, seed=4)
        np.testing.assert_array_equal(domains.target_test[0], np.float32(X + 50)[expected])


@pytest.mark.parametrize("reader", [npz, csv_table])
def test_files_name_their_groups(reader, tmp_path):
    paths = [tmp_path / name for name in ("a.npz", "b.npz")]
    for path in paths:
        people = np.char.add(path.name, PEOPLE.astype(str))
        table = pandas.DataFrame(X, columns=["p", "x"]).assign(subject=people, label=Y)
        if reader is npz:
            np.savez(path, x=X, y=Y, subject=people)
        else:
            table.to_csv(path, index=False)
    domains = reader(*paths, groups="subject")
    assert domains.input_shape == (2,)
    parts = [set(np.round(x[:, 0], 4).tolist()) for x in collect_inputs(domains)]
    assert not parts[0] & parts[1] | parts[2] & parts[3]


@pytest.mark.parametrize("sizes", [None, [60, 30, 10], [500, 20, 1], [3, 1, 1], [2, 2, 2], [19, 1]])
@pytest.mark.parametrize("share", [0.001, 0.2, 0.999])
def test_split_is_disjoint_complete_and_keeps_classes(sizes, share):
    labels = np.full(50, -1) if sizes is None else np.repeat(np.arange(len(sizes)), sizes)
    count, classes = (50, 1) if sizes is None else (sum(sizes), len(sizes))
    for seed in range(10):
        train, test = hold_out(labels, None, share, seed, sizes is not None)
        assert len(test) == min(max(round(share * count), 1), count - classes)
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(count))
        np.testing.assert_array_equal(train, np.sort(train))
        assert len(np.unique(labels[train])) == classes


def test_unlabeled_examples_of_test_groups_are_not_used():
    labels, groups = np.tile([0, 1, -1, -1], 6), np.repeat(np.arange(6), 4)
    train, test = hold_out(labels, groups, 0.3, seed=0, is_source=False)
    assert (len(train), len(test)) == (4 * 4, 2 * 2)
    assert not {*groups[train]} & {*groups[test]}
    assert (labels[test] >= 0).all()
