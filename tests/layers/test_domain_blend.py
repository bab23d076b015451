import itertools

import keras
import numpy as np
import pytest

from dann.layers import DomainBlend

RNG = np.random.default_rng(0)
SOURCE, TARGET = RNG.uniform(0, 255, (2, 200, 6, 4, 2)).astype("float32")


def blended(layer, source):
    return keras.ops.convert_to_numpy(layer([source, TARGET], training=True))


@pytest.mark.parametrize("factor", [0.5, 1.0])
def test_it_is_the_difference_with_one_share_an_example(factor):
    """What is black gives the shares, and these give what all else must be."""
    layer = DomainBlend(factor, roll=False, seed=3)
    share = blended(layer, np.zeros_like(SOURCE)) / TARGET
    one_each = share[:, :1, :1, :1]
    np.testing.assert_allclose(share, np.broadcast_to(one_each, share.shape), rtol=1e-5)
    assert share.min() >= 0
    assert share.max() <= factor * (1 + 1e-6)
    assert share.mean() == pytest.approx(factor / 2, abs=0.1 * factor)
    assert share.std() == pytest.approx(factor / 12**0.5, abs=0.05 * factor)
    again = blended(DomainBlend(factor, roll=False, seed=3), SOURCE)
    np.testing.assert_allclose(again, np.abs(SOURCE - one_each * TARGET), rtol=1e-5, atol=1e-3)
    assert np.any(blended(layer, SOURCE) != again)  # other shares the next time


def test_the_sum_weighs_both_images_to_one():
    layer = DomainBlend(0.8, roll=False, seed=3, rule="sum")
    mixed = blended(layer, SOURCE)
    differing = blended(DomainBlend(0.8, roll=False, seed=3), np.zeros_like(SOURCE))
    share = (differing / TARGET)[:, :1, :1, :1]  # the same draws
    np.testing.assert_allclose(mixed, (1 - share) * SOURCE + share * TARGET, rtol=1e-4)


def test_target_images_are_rolled_by_a_third_to_two_thirds_of_both_sides():
    layer, shifts = DomainBlend(1.0, seed=3), set()
    sides = list(itertools.product(range(6), range(4)))
    for _ in range(40):
        share = blended(layer, np.zeros_like(SOURCE))
        shares = {by: share / np.roll(TARGET, np.negative(by), (1, 2)) for by in sides}
        found = [by for by, s in shares.items() if np.allclose(s, s[:, :1, :1, :1], rtol=1e-4)]
        assert len(found) == 1
        shifts.update(found)
    assert shifts == set(itertools.product((2, 3, 4), (1, 2)))


def test_in_inference_the_source_stays():
    np.testing.assert_array_equal(DomainBlend()([SOURCE, TARGET]), SOURCE)


def test_fewer_target_images_are_taken_again_and_bytes_are_numbers():
    source, target = np.zeros((5, 1, 1, 1), "uint8"), np.array([100, 200], "uint8")
    layer = DomainBlend(1.0, seed=3)
    out = layer([source, target.reshape(2, 1, 1, 1)], training=True)
    again = DomainBlend(1.0, seed=3)([source, np.ones_like(source)], training=True)
    share = keras.ops.convert_to_numpy(again).ravel()
    expected = share * [100, 200, 100, 200, 100]
    np.testing.assert_allclose(keras.ops.convert_to_numpy(out).ravel(), expected, rtol=1e-6)
