"""A pair of domains, joined sources, and the lazy arrays that they consist of."""

import dataclasses
import itertools

import numpy as np
import pytest

from dann.data import DomainPair, arrays, join_sources, leave_one_domain_out
from dann.data.lazy_array import LazyArray, concatenate, select_rows

IMAGES = np.arange(6, dtype="uint8")[:, None, None, None] + np.zeros((6, 4, 4, 1), "uint8")
LABELS = np.arange(6) % 3
PAIR = DomainPair("a", "b", (IMAGES, LABELS), (IMAGES, LABELS), IMAGES, (IMAGES, LABELS), 3)


def with_oracle(labels=LABELS):
    return dataclasses.replace(PAIR, target_train_labels=labels)


def test_oracle_labels_reach_no_batch():
    assert (PAIR.input_shape, PAIR.name) == ((4, 4, 1), "a → b")
    first, reversed_pair = with_oracle(), with_oracle(LABELS[::-1].copy())
    batches = zip(first.batches(2, seed=1).repeat(), reversed_pair.batches(2, seed=1), strict=False)
    for (inputs, labels), (inputs_again, labels_again) in itertools.islice(batches, 5):
        assert inputs.keys() == {"source", "target"}
        for name, images in inputs.items():
            np.testing.assert_array_equal(images, inputs_again[name])
        np.testing.assert_array_equal(labels, labels_again)


def test_oracle_trains_on_known_target_labels():
    oracle = with_oracle(np.array([0, -1, 2, -1, 1, 2])).oracle()
    np.testing.assert_array_equal(oracle.source_train[0][:, 0, 0, 0], [0, 2, 4, 5])
    np.testing.assert_array_equal(oracle.source_train[1], [0, 2, 1, 2])
    assert oracle.source_test is PAIR.target_test
    assert oracle.name == "b (labeled) → b"


def test_labeled_target_examples_are_drawn():
    domains = with_oracle().with_target_labeled(per_class=1, seed=3)
    images, labels = domains.target_labeled
    np.testing.assert_array_equal(np.sort(labels), [0, 1, 2])
    np.testing.assert_array_equal(labels, LABELS[images[:, 0, 0, 0]])
    inputs, batch_labels = domains.batches(2)[0]
    assert set(inputs) == {"source", "target", "target_labeled"}
    assert batch_labels.shape == (4,)
    again = with_oracle().with_target_labeled(per_class=1, seed=3).target_labeled
    np.testing.assert_array_equal(images, again[0])
    for seed in range(5):  # two of two rows per class: each row once
        two, _ = with_oracle().with_target_labeled(per_class=2, seed=seed).target_labeled
        np.testing.assert_array_equal(np.sort(two[:, 0, 0, 0]), np.arange(6))


def test_identity_differs_for_other_examples_alone():
    images = np.random.default_rng(0).uniform(size=(80, 4, 4, 1))

    def identify(inputs):
        domain = (inputs, np.arange(len(inputs)) % 3)
        return DomainPair("a", "b", domain, domain, inputs, domain, 3).identity["target"]

    identity = identify(images)
    for changed_images in (images[:-1], images[::-1].copy(), np.roll(images, 1, axis=0)):
        assert not np.allclose(identify(changed_images), identity, rtol=1e-6)
    lazy = LazyArray(images.shape, images.dtype, lambda rows: images[rows] * (1 + 1e-9))
    np.testing.assert_allclose(identify(lazy), identity, rtol=1e-6)
    texts = np.array([[f"text {number}"] for number in range(80)])
    assert identify(texts) != identify(texts[::-1].copy())


CLASSES = np.arange(20) % 2
TARGET = np.full((20, 3), 9.0), CLASSES
VALUES = np.arange(24, dtype="uint8").reshape(6, 2, 2)
ROWS = np.array([4, 0, 3, 1, 2, 5])
LAZY = LazyArray(VALUES.shape, VALUES.dtype, VALUES.__getitem__)
JOINED = concatenate([VALUES[:3], select_rows(LAZY, np.array([3])), VALUES[4:]])


def pair_from(value, size=20, name="source"):
    return arrays((np.full((size, 3), value), np.arange(size) % 2), TARGET, source_name=name)


@pytest.mark.parametrize("lazy", [False, True])
def test_batches_contain_equal_parts_of_sources(lazy):
    pairs = [pair_from(5.0, 40, "far"), pair_from(1.0, 20, "near")]
    for index, (inputs, labels) in enumerate([pair.source_train for pair in pairs] if lazy else []):
        lazy_inputs = LazyArray(inputs.shape, inputs.dtype, inputs.__getitem__)
        pairs[index] = dataclasses.replace(pairs[index], source_train=(lazy_inputs, labels))
    domains = join_sources(pairs)
    assert (domains.name, domains.num_sources) == ("far + near → target", 2)
    assert np.bincount(domains.source_domain).tolist() == [32, 16]
    assert domains.oracle().num_sources == 1
    assert isinstance(domains.source_train[0], np.ndarray) != lazy
    np.testing.assert_array_equal(domains.source_test[0][:, 0], [5.0] * 8 + [1.0] * 4)
    for inputs, labels in itertools.islice(domains.batches(8, seed=0), 20):
        values = np.array([5.0, 1.0])[inputs["source_domain"]]
        np.testing.assert_array_equal(inputs["source"], np.repeat(values[:, np.newaxis], 3, 1))
        np.testing.assert_array_equal(np.bincount(inputs["source_domain"]), [4, 4])
        assert labels.shape == (8,)


def test_joined_pairs_have_no_standardizer():
    pairs = [pair_from(value).standardize("source") for value in (1.0, 1.0)]
    assert join_sources(pairs).standardizer is None


LAZY_ARRAYS = (select_rows(LAZY, ROWS), VALUES[ROWS]), (JOINED, VALUES)
INDICES = 1, -1, slice(1, 5), np.array([4, 0, 3, 0]), np.array([], int), np.arange(6) % 2 == 0


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize(("lazy", "expected"), LAZY_ARRAYS)
def test_lazy_arrays_are_indexed_like_arrays(lazy, expected, index):
    assert (lazy.shape, lazy.dtype, len(lazy)) == (expected.shape, expected.dtype, len(expected))
    np.testing.assert_array_equal(lazy[index], expected[index])
    assert lazy[index].dtype == np.uint8
    with pytest.raises(IndexError):
        lazy[6]


@pytest.mark.parametrize("names", [None, np.array(["cat", "ant", "bee"])], ids=["numbers", "names"])
def test_leaving_one_domain_out_keeps_every_example(names):
    subjects, classes = np.arange(90) % 3 + 5, np.arange(90) // 3 % 3
    classes[(subjects == 5) & (classes == 2)] = 0  # a source without one of the classes
    values = np.arange(90.0)[:, np.newaxis]
    labels = classes if names is None else names[classes]
    for target, sources in ((7, [5, 6]), (5, [6, 7])):
        domains = leave_one_domain_out(values, labels, subjects, target)
        expected = ("0", "1", "2") if names is None else ("ant", "bee", "cat")
        assert (domains.num_sources, domains.class_names) == (2, expected)
        assert domains.name == f"{sources[0]} + {sources[1]} → {target}"
        inputs, numbers = domains.source_train
        rows = inputs[:, 0].astype(int)
        np.testing.assert_array_equal(np.array(sources)[domains.source_domain], subjects[rows])
        np.testing.assert_array_equal(np.array(expected)[numbers], labels[rows].astype(str))
        held_out = np.concatenate([domains.target_train, domains.target_test[0]])[:, 0]
        assert sorted(held_out) == sorted(np.flatnonzero(subjects == target))
    labels = labels[subjects != 6]  # now only the held-out subject has the third class
    data = values[subjects != 6], labels, subjects[subjects != 6], 7
    with pytest.raises(ValueError, match="pass the names of all classes as `class_names`"):
        leave_one_domain_out(*data)
    assert leave_one_domain_out(*data, class_names=expected).class_names == expected
