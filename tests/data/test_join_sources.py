"""Joined sources, and the lazy arrays that they consist of."""

import dataclasses
import itertools

import numpy as np
import pytest

from dann.data import arrays, join_sources
from dann.data.lazy_array import LazyArray, concatenate, select_rows

LABELS = np.arange(20) % 2
TARGET = np.full((20, 3), 9.0), LABELS
VALUES = np.arange(24, dtype="uint8").reshape(6, 2, 2)
ROWS = np.array([4, 0, 3, 1, 2])
LAZY = LazyArray(VALUES.shape, VALUES.dtype, VALUES.__getitem__)
JOINED = concatenate([VALUES[:3], select_rows(LAZY, np.array([3])), VALUES[4:]])


def pair_from(value, size=20, name="source"):
    labels = np.arange(size) % 2
    return arrays((np.full((size, 3), value), labels), TARGET, source_name=name)


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


@pytest.mark.parametrize("index", [1, -1, slice(1, 5), np.array([4, 0, 3, 0]), np.array([], int)])
@pytest.mark.parametrize(
    ("lazy", "expected"), [(select_rows(LAZY, ROWS), VALUES[ROWS]), (JOINED, VALUES)]
)
def test_lazy_arrays_are_indexed_like_arrays(lazy, expected, index):
    assert (lazy.shape, lazy.dtype, len(lazy)) == (expected.shape, expected.dtype, len(expected))
    np.testing.assert_array_equal(lazy[index], expected[index])
    assert lazy[index].dtype == np.uint8
    with pytest.raises(IndexError):
        lazy[6]
