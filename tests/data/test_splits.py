import numpy as np
import pytest

from dann.data.splits import hold_out


@pytest.mark.parametrize("sizes", [None, [60, 30, 10], [500, 20, 1], [3, 1, 1], [2, 2, 2], [19, 1]])
@pytest.mark.parametrize("share", [0.001, 0.2, 0.999])
def test_both_parts_are_disjoint_and_complete_and_training_keeps_every_class(sizes, share):
    labels = np.full(50, -1) if sizes is None else np.repeat(np.arange(len(sizes)), sizes)
    count, classes = (50, 1) if sizes is None else (sum(sizes), len(sizes))
    for seed in range(10):
        train, test = hold_out(labels, None, share, seed, sizes is not None)
        assert len(test) == min(max(round(share * count), 1), count - classes)
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(count))
        np.testing.assert_array_equal(train, np.sort(train))
        assert len(np.unique(labels[train])) == classes
