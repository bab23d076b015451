"""Comparisons of lists of arrays."""

import numpy as np


def assert_all_close(seen, expected, rtol=1e-4, atol=1e-6):
    """Compares arrays of any shapes pair by pair."""
    for one, other in zip(seen, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)


def assert_all_equal(seen, expected):
    """Compares arrays of any shapes pair by pair, to the last digit."""
    for one, other in zip(seen, expected, strict=True):
        np.testing.assert_array_equal(one, other)
