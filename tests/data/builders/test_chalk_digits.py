import numpy as np
import pytest
from sklearn.datasets import load_digits

from dann.data import digits_to_photos
from dann.data.builders.chalk_digits import _crops, _digits, _drawn


@pytest.fixture(scope="module")
def domains(cache):
    return digits_to_photos(str(cache))


def test_it_has_the_promised_sizes(domains):
    assert domains.input_shape == (16, 16, 3)
    assert domains.source_train[0].dtype == np.uint8
    sizes = len(domains.source_train[0]), len(domains.target_train), len(domains.target_test[0])
    assert sizes == (8000, 8000, 599)


def test_source_target_and_test_digits_are_disjoint():
    parts = [_digits(part)[0] for part in ("black", "photo", "test")]
    distinct = {digit.tobytes() for part in parts for digit in part}
    assert sum(len(part) for part in parts) == 1797
    assert distinct == {(image / 16).tobytes() for image in load_digits().images}
    assert len(distinct) == sum(len({d.tobytes() for d in part}) for part in parts)


def test_a_digit_that_is_not_jittered_keeps_its_ink():
    digit = load_digits().images[0] / 16
    drawn = _drawn(digit, np.random.default_rng(0), jitter=False)
    assert drawn.shape == (16, 16)
    # Bilinear enlargement: each original pixel is the mean of its four, away from its neighbours.
    np.testing.assert_allclose(drawn.sum(), 4 * digit.sum(), rtol=0.03)
    np.testing.assert_allclose(drawn[7:9, 7:9].mean(), digit[3:5, 3:5].mean(), atol=0.02)


def test_a_source_image_is_grey_and_a_target_image_is_not(domains):
    source, target = domains.source_test[0].astype(int), domains.target_test[0].astype(int)
    assert np.ptp(source, axis=-1).max() == 0
    assert np.ptp(target, axis=-1).mean() > 10


def test_the_same_digits_are_tested_in_both_domains(domains):
    np.testing.assert_array_equal(np.sort(domains.source_test[1]), np.sort(domains.target_test[1]))


def test_train_and_test_crops_come_from_different_halves():
    halves = [
        {next(crops)[3, 3].tobytes() for _ in range(3000)}
        for crops in (_crops(np.random.default_rng(0), right=side) for side in (False, True))
    ]
    assert len(halves[0] & halves[1]) < 0.01 * len(halves[0])


@pytest.mark.slow
def test_it_is_the_same_each_time(domains, tmp_path):
    again = digits_to_photos(str(tmp_path))
    np.testing.assert_array_equal(again.target_train, domains.target_train)
    np.testing.assert_array_equal(again.source_train[0], domains.source_train[0])
