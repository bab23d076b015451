"""Comparisons of lists of arrays."""

import numpy as np


def assert_all_close(arrays, expected, rtol=1e-4, atol=1e-6):
    """Compares arrays of any shapes pair by pair, within a tolerance."""
    for array, expected_array in zip(arrays, expected, strict=True):
        np.testing.assert_allclose(array, expected_array, rtol=rtol, atol=atol)


def assert_all_equal(arrays, expected):
    """Compares arrays of any shapes pair by pair, bit for bit."""
    for array, expected_array in zip(arrays, expected, strict=True):
        np.testing.assert_array_equal(array, expected_array)
