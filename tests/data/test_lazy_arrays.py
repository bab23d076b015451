import numpy as np
import pytest

from dann.data.lazy_arrays import Joined, Rows

VALUES = np.arange(24, dtype="uint8").reshape(6, 2, 2)
ROWS = np.array([4, 0, 3, 1, 2])
JOINED = Joined([VALUES[:3], Rows(VALUES, np.array([3])), VALUES[4:]])


@pytest.mark.parametrize("chosen", [1, -1, slice(1, 5), np.array([4, 0, 3, 0]), np.array([], int)])
@pytest.mark.parametrize(
    ("lazy", "expected"), [(Rows(VALUES, ROWS), VALUES[ROWS]), (JOINED, VALUES)]
)
def test_they_are_indexed_like_an_array(lazy, expected, chosen):
    assert (lazy.shape, lazy.dtype, len(lazy)) == (expected.shape, expected.dtype, len(expected))
    np.testing.assert_array_equal(lazy[chosen], expected[chosen])
    assert lazy[chosen].dtype == np.uint8
    with pytest.raises(IndexError):
        lazy[6]
