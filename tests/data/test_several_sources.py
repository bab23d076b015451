"""Several sources as one, with the target that they share."""

import dataclasses
import itertools

import numpy as np

from dann.data import arrays, several_sources
from dann.data.lazy_arrays import Rows

LABELS = np.arange(20) % 2
TARGET = np.full((20, 3), 9.0), LABELS


def pair_from(value, size=20, name="source"):
    labels = np.arange(size) % 2
    return arrays((np.full((size, 3), value), labels), TARGET, source_name=name)


def test_batches_hold_equal_parts_of_each_source():
    domains = several_sources([pair_from(5.0, 40, "far"), pair_from(1.0, 20, "near")])
    assert domains.name == "far + near → target"
    assert domains.num_sources == 2
    for inputs, labels in itertools.islice(domains.batches(8, seed=0), 20):
        values = np.array([5.0, 1.0])[inputs["source_domain"]]
        np.testing.assert_array_equal(inputs["source"], np.repeat(values[:, np.newaxis], 3, 1))
        np.testing.assert_array_equal(np.bincount(inputs["source_domain"]), [4, 4])
        assert labels.shape == (8,)


def test_the_report_is_on_the_test_sets_of_all():
    inputs, labels = several_sources([pair_from(5.0, 40), pair_from(1.0, 20)]).source_test
    np.testing.assert_array_equal(inputs[:, 0], [5.0] * 8 + [1.0] * 4)
    assert labels.shape == (12,)


def test_array_likes_are_not_read_into_memory():
    pairs = [pair_from(5.0), pair_from(1.0)]
    for index, domains in enumerate(pairs):
        inputs, labels = domains.source_train
        lazy = Rows(inputs, np.arange(len(inputs))), labels
        pairs[index] = dataclasses.replace(domains, source_train=lazy)
    domains = several_sources(pairs)
    assert not isinstance(domains.source_train[0], np.ndarray)
    inputs, _ = next(iter(domains.batches(8)))
    values = np.array([5.0, 1.0])[inputs["source_domain"]]
    np.testing.assert_array_equal(inputs["source"][:, 0], values)


def test_the_oracle_is_one_domain():
    oracle = several_sources([pair_from(5.0), pair_from(1.0)]).oracle()
    assert oracle.num_sources == 1
    assert "source_domain" not in next(iter(oracle.batches(4)))[0]


def test_pairs_with_several_sources_keep_them_all():
    two = several_sources([pair_from(5.0), pair_from(3.0)])
    domains = several_sources([two, pair_from(1.0), two])
    assert domains.num_sources == 5
    inputs, _ = domains.source_train
    np.testing.assert_array_equal(
        inputs[:, 0], np.array([5.0, 3.0, 1.0, 5.0, 3.0])[domains.source_domain]
    )
    assert np.bincount(domains.source_domain).tolist() == [16] * 5
