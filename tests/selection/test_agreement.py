import numpy as np
import pytest

from dann.selection import agreement


def kappa(first, second):
    share = (first == second).mean()
    chance = sum((first == k).mean() * (second == k).mean() for k in range(4))
    return (share - chance) / (1 - chance)


def test_agreement_is_the_mean_kappa():
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 4, size=(5, 40))
    classes[1] = np.where(rng.random(40) < 0.8, classes[0], classes[1])
    expected = [
        np.mean([kappa(first, second) for k, second in enumerate(classes) if k != j])
        for j, first in enumerate(classes)
    ]
    np.testing.assert_allclose(agreement(list(classes)), expected, atol=1e-12)


@pytest.mark.parametrize("classes", [np.zeros(6, int), np.ones(6, int), np.arange(6) % 2])
def test_constant_predictions_agree_by_chance_only(classes):
    assert agreement([np.zeros(6, int), classes]) == [0.0, 0.0]
