"""Small arrays of a source and a target, and comparisons of arrays."""

import numpy as np

RNG = np.random.default_rng(1)
SOURCE = RNG.normal(size=(5, 3))
TARGET = RNG.normal(size=(5, 3)) + 0.5
ALL_INPUTS = np.concatenate([SOURCE, TARGET])
LABELS = np.array([0, 1, 2, 1, 0])
PAIR = {"source": SOURCE, "target": TARGET}
STRENGTH = 0.7


def assert_all_close(arrays, expected, rtol=1e-4, atol=1e-6):
    """Compares arrays of any shapes pair by pair, within a tolerance."""
    for array, expected_array in zip(arrays, expected, strict=True):
        np.testing.assert_allclose(array, expected_array, rtol=rtol, atol=atol)


def assert_all_equal(arrays, expected):
    """Compares arrays of any shapes pair by pair, bit for bit."""
    for array, expected_array in zip(arrays, expected, strict=True):
        np.testing.assert_array_equal(array, expected_array)


def collect_inputs(domains):
    """Returns inputs of source train, source test, target train and target test."""
    (source, _), (source_test, _) = domains.source_train, domains.source_test
    return [source, source_test, domains.target_train, domains.target_test[0]]


def assert_same_inputs(domains, expected):
    """Compares the inputs of two pairs part by part, bit for bit."""
    assert_all_equal(collect_inputs(domains), collect_inputs(expected))
