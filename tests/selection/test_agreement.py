"""How far trainings agree."""

import numpy as np
import pytest
from scipy import special

from dann.selection import agreement


def test_it_is_the_mean_share_of_equal_classes_over_the_others():
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 4, size=(5, 40))
    expected = [
        np.mean([(one == other).mean() for k, other in enumerate(classes) if k != j])
        for j, one in enumerate(classes)
    ]
    np.testing.assert_allclose(agreement(list(classes)), expected)


def test_logits_count_by_their_largest():
    logits = np.random.default_rng(1).normal(size=(3, 20, 4))
    classes = logits.argmax(axis=2)
    assert agreement(list(logits)) == agreement(list(classes))
    assert agreement([special.softmax(logits[0], axis=1), *classes[1:]]) == agreement(list(classes))


def test_two_agree_equally_and_equal_ones_completely():
    first, second = agreement([np.array([0, 1, 2, 0]), np.array([0, 1, 1, 0])])
    assert first == second == 0.75
    assert agreement([np.arange(5)] * 3) == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    "predictions",
    [
        [],
        [np.arange(3)],
        [np.arange(3), np.arange(4)],
        [np.zeros(0, int), np.zeros(0, int)],
        [np.zeros((2, 3, 4)), np.zeros((2, 3, 4))],
        [1, 2],
    ],
    ids=["none", "one", "other numbers", "no examples", "maps", "scalars"],
)
def test_what_cannot_be_compared_is_refused(predictions):
    with pytest.raises(ValueError, match="of at least two trainings .* Received: shapes"):
        agreement(predictions)
