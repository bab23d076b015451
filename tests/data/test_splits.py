import numpy as np
import pytest

from dann.data.splits import hold_out


@pytest.mark.parametrize("labels", [None, np.arange(50) % 7, np.zeros(50)])
@pytest.mark.parametrize(("share", "held_out"), [(0.2, 10), (0.001, 1), (0.999, 49)])
def test_both_parts_are_disjoint_and_complete(labels, share, held_out):
    train, test = hold_out(50, share, 0, labels)
    classes = 1 if labels is None else len(np.unique(labels))
    assert len(test) == min(held_out, 50 - classes)
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(50))
    np.testing.assert_array_equal(train, np.sort(train))


@pytest.mark.parametrize("sizes", [[500, 20, 1], [500, 2, 1], [3, 1, 1], [2, 2, 2]])
def test_training_keeps_every_class(sizes):
    labels = np.repeat(np.arange(3), sizes)
    for seed in range(60):
        train, test = hold_out(len(labels), 0.2, seed, labels)
        assert len(np.unique(labels[train])) == 3
        assert len(test) > 0


def test_classes_of_one_example_each_cannot_be_split():
    with pytest.raises(ValueError, match="a class of at least 2. Received: 3 classes of 1"):
        hold_out(3, 0.5, 0, np.arange(3))


def test_the_split_depends_on_the_seed():
    first, again, other = (hold_out(50, 0.2, seed)[1] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_split_by_labels_keeps_their_proportions():
    labels = np.repeat([0, 1, 2], [60, 30, 10])
    for seed in range(5):
        test = hold_out(100, 0.2, seed, labels)[1]
        np.testing.assert_array_equal(np.bincount(labels[test]), [12, 6, 2])


def test_one_class_may_have_a_single_example():
    assert len(hold_out(20, 0.25, 0, np.arange(20) == 3)[1]) == 5


@pytest.mark.parametrize("share", [0, 1, -0.1, float("nan")])
def test_a_share_must_be_between_0_and_1(share):
    with pytest.raises(ValueError, match="`test_share` must be .*above 0 and below 1. Received: "):
        hold_out(10, share)


def test_a_single_example_cannot_be_split():
    with pytest.raises(ValueError, match="takes at least 2. Received: 1"):
        hold_out(1, 0.5)
