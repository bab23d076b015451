"""How far trainings agree."""

import numpy as np
import pytest
from scipy import special

from dann.selection import agreement


def kappa(one, other):
    share = (one == other).mean()
    chance = sum((one == k).mean() * (other == k).mean() for k in range(4))
    return (share - chance) / (1 - chance)


def test_it_is_the_mean_kappa_with_the_others():
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 4, size=(5, 40))
    classes[1] = np.where(rng.random(40) < 0.8, classes[0], classes[1])
    expected = [
        np.mean([kappa(one, other) for k, other in enumerate(classes) if k != j])
        for j, one in enumerate(classes)
    ]
    np.testing.assert_allclose(agreement(list(classes)), expected, atol=1e-12)


def test_logits_count_by_their_largest():
    logits = np.random.default_rng(1).normal(size=(3, 20, 4))
    classes = logits.argmax(axis=2)
    assert agreement(list(logits)) == agreement(list(classes))
    assert agreement([special.softmax(logits[0], axis=1), *classes[1:]]) == agreement(list(classes))


def test_two_agree_equally_and_equal_ones_completely():
    first, second = agreement([np.array([0, 1, 2, 0]), np.array([0, 1, 1, 0])])
    assert first == second == pytest.approx((0.75 - 0.375) / (1 - 0.375))
    assert agreement([np.arange(5)] * 3) == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("other", [np.zeros(6, int), np.ones(6, int), np.arange(6) % 2])
def test_one_class_for_all_agrees_with_nothing(other):
    assert agreement([np.zeros(6, int), other]) == [0.0, 0.0]


@pytest.mark.parametrize(
    "predictions",
    [
        [],
        [np.arange(3)],
        [np.arange(3), np.arange(4)],
        [np.zeros(0, int), np.zeros(0, int)],
        [np.full((3, 2), np.nan), np.zeros((3, 2))],
    ],
)
def test_what_cannot_be_compared_is_refused(predictions):
    with pytest.raises(ValueError, match="trainings|shape|array|finite"):
        agreement(predictions)
