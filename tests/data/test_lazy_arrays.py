import numpy as np
import pytest

from dann.data.lazy_arrays import Joined, Rows

VALUES = np.arange(24, dtype="uint8").reshape(6, 2, 2)
ROWS = np.array([4, 0, 3])


@pytest.mark.parametrize("chosen", [1, -1, slice(0, 2), np.array([2, 2, 0]), np.array([], int)])
def test_rows_are_indexed_like_the_array_that_they_are_chosen_from(chosen):
    found = Rows(VALUES, ROWS)[chosen]
    np.testing.assert_array_equal(found, VALUES[ROWS][chosen])
    assert found.dtype == np.uint8


def test_they_have_the_shape_and_type_of_an_array():
    rows = Rows(VALUES, ROWS)
    assert (rows.shape, rows.dtype, len(rows)) == ((3, 2, 2), np.dtype("uint8"), 3)
    with pytest.raises(IndexError):
        rows[3]


def test_only_the_chosen_rows_are_read():
    class Watched:
        shape, dtype = VALUES.shape, VALUES.dtype
        asked = []

        def __getitem__(self, chosen):
            self.asked.append(np.asarray(chosen).tolist())
            return VALUES[chosen]

    rows = Rows(Watched(), ROWS)
    assert Watched.asked == []
    rows[1:]
    rows[0]
    assert Watched.asked == [[0, 3], 4]


@pytest.mark.parametrize("chosen", [1, -1, slice(1, 5), np.array([5, 0, 3, 0]), np.array([], int)])
def test_joined_arrays_are_indexed_like_their_concatenation(chosen):
    joined = Joined([VALUES[:3], Rows(VALUES, np.array([3])), VALUES[4:]])
    assert (joined.shape, joined.dtype, len(joined)) == (VALUES.shape, VALUES.dtype, 6)
    found = joined[chosen]
    np.testing.assert_array_equal(found, VALUES[chosen])
    assert found.dtype == np.uint8


def test_a_row_beyond_joined_arrays_is_refused():
    with pytest.raises(IndexError):
        Joined([VALUES, VALUES])[12]
