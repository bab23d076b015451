"""The builder of digits from scikit-learn's data."""

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from dann.data import digits_to_photos
from dann.data.builders.chalk_digits import _crops, _digits

DATA: Any = load_digits()


@pytest.fixture(scope="module")
def domains(cache):
    return digits_to_photos(str(cache))


def test_black_config_is_grayscale_and_photo_config_is_color(domains):
    assert domains.input_shape == (16, 16, 3)
    sizes = len(domains.source_train[0]), len(domains.target_train), len(domains.target_test[0])
    assert sizes == (8000, 8000, 599)
    source, target = domains.source_test[0].astype(int), domains.target_test[0].astype(int)
    assert np.ptp(source, axis=-1).max() == 0
    assert np.ptp(target, axis=-1).mean() > 10
    np.testing.assert_array_equal(np.sort(domains.source_test[1]), np.sort(domains.target_test[1]))


def test_source_target_and_test_digits_are_disjoint():
    parts = [{digit.tobytes() for digit in _digits(part)[0]} for part in ("black", "photo", "test")]
    assert set.union(*parts) == {(image / 16).tobytes() for image in DATA.images}
    assert sum(map(len, parts)) == len(set.union(*parts))


def test_train_and_test_crops_come_from_different_halves():
    halves = [
        {next(crops)[3, 3].tobytes() for _ in range(3000)}
        for crops in (_crops(np.random.default_rng(0), right=side) for side in (False, True))
    ]
    assert len(halves[0] & halves[1]) < 0.01 * len(halves[0])
