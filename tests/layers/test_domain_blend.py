import itertools

import keras
import numpy as np
import pytest

from dann.adaptation import DANN
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


def test_an_unknown_rule_is_refused():
    with pytest.raises(ValueError, match="`rule` must be .*difference.*sum.*Received"):
        DomainBlend(rule="product")


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


@pytest.mark.parametrize("factor", [0.0, 1.5, -0.5, float("nan")])
def test_a_factor_out_of_range_is_refused(factor):
    with pytest.raises(ValueError, match=r"above 0 and of at most 1. Received: factor="):
        DomainBlend(factor)


@pytest.mark.parametrize(
    "shapes", [((4, 6), (4, 6)), ((4, 6, 2), (4, 6, 2)), ((4, 6, 4, 1), (4, 1, 1, 1))]
)
def test_what_are_no_images_of_one_size_is_refused(shapes):
    with pytest.raises(ValueError, match=r"images of one size.*Received: \(4, 6"):
        DomainBlend()([np.ones(shape) for shape in shapes], training=True)


def test_one_domain_alone_is_refused():
    with pytest.raises(ValueError, match=r"source and target images.*Received: \(4, 6, 4, 1\)"):
        DomainBlend()(np.ones((4, 6, 4, 1)), training=True)


@pytest.mark.parametrize("several", [list, tuple])
def test_images_that_are_not_there_yet_have_its_shape(several):
    images = several(keras.Input((6, 4, 2)) for _ in range(2))
    assert DomainBlend()(images, training=True).shape == (None, 6, 4, 2)


def test_one_domain_that_is_not_there_yet_is_refused():
    with pytest.raises(ValueError, match=r"source and target images.*Received: \(None, 6, 4, 1\)"):
        DomainBlend()(keras.Input((6, 4, 1)), training=True)


@pytest.mark.parametrize("training", [True, False])
def test_the_outputs_have_the_type_that_it_computes_in(training):
    whole = np.ones((1, 2, 2, 1), "uint8")
    out = DomainBlend()([whole, whole], training=training)
    assert keras.backend.standardize_dtype(out.dtype) == "float32"


def test_fewer_target_images_are_taken_again_and_bytes_are_numbers():
    source, target = np.zeros((5, 1, 1, 1), "uint8"), np.array([100, 200], "uint8")
    layer = DomainBlend(1.0, seed=3)
    out = layer([source, target.reshape(2, 1, 1, 1)], training=True)
    again = DomainBlend(1.0, seed=3)([source, np.ones_like(source)], training=True)
    share = keras.ops.convert_to_numpy(again).ravel()
    expected = share * [100, 200, 100, 200, 100]
    np.testing.assert_allclose(keras.ops.convert_to_numpy(out).ravel(), expected, rtol=1e-6)


def of_any_size():
    images = keras.Input((None, None, 1))
    return keras.Model(images, keras.layers.GlobalAveragePooling2D()(images))


@pytest.mark.tensorflow
def test_a_model_that_blends_trains_compiled_and_comes_back_from_a_file(reloaded):
    model = DANN(
        of_any_size(),
        num_classes=2,
        augmentation={"blend": DomainBlend(0.7, roll=False, seed=1, rule="sum")},
    )
    model.compile("sgd")
    images = RNG.integers(0, 256, (2, 4, 8, 8, 1)).astype("uint8")
    pair = dict(zip(("source", "target"), images, strict=True))
    logs = model.fit(pair, np.arange(4) % 2, verbose=0).history
    assert np.isfinite(logs["loss"]).all()
    again = reloaded(model).augmentation["blend"]
    assert (again.factor, again.roll, again.seed, again.rule) == (0.7, False, 1, "sum")
