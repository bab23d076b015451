import itertools

import keras
import numpy as np
import pytest

from dann.layers import DomainBlend

RNG = np.random.default_rng(0)
SOURCE, TARGET = RNG.uniform(0, 255, (2, 200, 6, 4, 2)).astype("float32")


def blend(layer, source):
    return keras.ops.convert_to_numpy(layer([source, TARGET], training=True))


@pytest.mark.parametrize("factor", [0.5, 1.0])
def test_difference_has_one_weight_per_example(factor):
    """A black source shows the weights, and the weights determine all other outputs."""
    layer = DomainBlend(factor, roll=False, seed=3)
    weights = blend(layer, np.zeros_like(SOURCE)) / TARGET
    weight = weights[:, :1, :1, :1]
    np.testing.assert_allclose(weights, np.broadcast_to(weight, weights.shape), rtol=1e-5)
    assert weight.min() >= 0
    assert weight.max() <= factor * (1 + 1e-6)
    assert weight.mean() == pytest.approx(factor / 2, abs=0.1 * factor)
    assert weight.std() == pytest.approx(factor / 12**0.5, abs=0.05 * factor)
    outputs = blend(DomainBlend(factor, roll=False, seed=3), SOURCE)
    np.testing.assert_allclose(outputs, np.abs(SOURCE - weight * TARGET), rtol=1e-5, atol=1e-3)
    assert np.any(blend(layer, SOURCE) != outputs)  # the second call draws new weights


def test_weights_of_the_sum_add_to_one():
    layer = DomainBlend(0.8, roll=False, seed=3, rule="sum")
    mixed = blend(layer, SOURCE)
    difference = blend(DomainBlend(0.8, roll=False, seed=3), np.zeros_like(SOURCE))
    weight = (difference / TARGET)[:, :1, :1, :1]  # from the same random numbers
    np.testing.assert_allclose(mixed, (1 - weight) * SOURCE + weight * TARGET, rtol=1e-4)


def test_target_is_rolled_by_one_to_two_thirds():
    layer, shifts = DomainBlend(1.0, seed=3), set()
    sides = list(itertools.product(range(6), range(4)))
    for _ in range(40):
        outputs = blend(layer, np.zeros_like(SOURCE))
        weights = {side: outputs / np.roll(TARGET, np.negative(side), (1, 2)) for side in sides}
        shift = [side for side, w in weights.items() if np.allclose(w, w[:, :1, :1, :1], 1e-4)]
        assert len(shift) == 1
        shifts.update(shift)
    assert shifts == set(itertools.product((2, 3, 4), (1, 2)))


def test_inference_returns_the_source():
    np.testing.assert_array_equal(DomainBlend()([SOURCE, TARGET]), SOURCE)
