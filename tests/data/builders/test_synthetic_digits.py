import io
import itertools
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.neighbors import KNeighborsClassifier

from dann.data.builders import synthetic_digits
from dann.data.builders.synthetic_digits import (
    _FONTS,
    SyntheticDigits,
    _print,
    _two_colours,
    draw_number,
)

LUMA = np.array([0.299, 0.587, 0.114])


def ink(digits, middle, font="DejaVuSans", **where):
    """Ink in [0, 1] at the size of an image."""
    return np.asarray(_print(digits, middle, font, **where).reduce(2)) / 255


def drawn(seed, count):
    examples = [draw_number(np.random.default_rng((seed, index))) for index in range(count)]
    images, labels = zip(*examples, strict=True)
    return np.stack(images), np.array(labels)


def test_images_are_bytes_in_colour_and_labels_even():
    images, labels = drawn(0, 1000)
    assert images.shape == (1000, 32, 32, 3)
    assert images.dtype == np.uint8
    assert np.bincount(labels, minlength=10).min() > 65  # 100 expected, 9.5 the deviation
    assert np.ptp(images.astype(int), axis=-1).mean() > 30


def test_an_image_is_a_matter_of_its_split_and_number():
    images, labels = drawn(0, 20)
    again, labels_again = drawn(0, 20)
    others, _ = drawn(1, 20)
    np.testing.assert_array_equal(images, again)
    np.testing.assert_array_equal(labels, labels_again)
    assert (images != others).any(axis=(1, 2, 3)).all()


def test_neighbours_classify_the_digits():
    images, labels = drawn(0, 2000)
    luma = images @ LUMA
    paper = np.median(luma[:, [0, 1, -2, -1]].reshape(len(luma), -1), axis=1)
    strokes = np.abs(luma - paper[:, np.newaxis, np.newaxis])
    strokes /= strokes.max(axis=(1, 2), keepdims=True)
    middles = strokes[:, 4:28, 6:26].reshape(len(luma), -1)
    judge = KNeighborsClassifier(5).fit(middles[:1600], labels[:1600])
    assert judge.score(middles[1600:], labels[1600:]) > 0.85  # chance is 0.1


def test_stroke_and_background_differ_in_luma():
    rng = np.random.default_rng(0)
    for _ in range(200):
        stroke, background = _two_colours(rng)
        assert abs((np.array(stroke) - background) @ LUMA) >= 80


def test_an_image_has_two_colours_and_those_between():
    images, _ = drawn(0, 100)
    for image in images.reshape(100, -1, 3).astype(float):
        offsets = image - image.mean(axis=0)
        _, scales, _ = np.linalg.svd(offsets, full_matrices=False)
        # On a line but for rounding, at most one unit a channel.
        assert scales[1] < np.sqrt(3 * len(image))


@pytest.mark.parametrize("font", _FONTS)
def test_every_font_has_ten_different_digits_in_the_middle(font):
    digits = [ink([digit], 0, font, height=20) for digit in range(10)]
    assert len({digit.tobytes() for digit in digits}) == 10
    rows, columns = np.nonzero(np.maximum.reduce(digits) > 0.5)
    assert abs(rows.min() + rows.max() - 31) <= 6  # an old-style 4 hangs below the line
    assert abs(columns.min() + columns.max() - 31) <= 4
    assert 17 <= np.ptp(np.nonzero(digits[0] > 0.5)[0]) + 1 <= 21


@pytest.mark.parametrize(("digits", "middle"), [([1, 7], 1), ([7, 2], 0), ([3, 7, 3], 1)])
def test_the_label_is_in_the_middle_and_others_beside_it(digits, middle):
    number, alone = ink(digits, middle, gap=0.1), ink([7], 0, gap=0.1)
    np.testing.assert_array_equal(number[:, 10:22], alone[:, 10:22])
    for side, columns in ((-1, slice(0, 6)), (1, slice(26, 32))):
        has_neighbour = 0 <= middle + side < len(digits)
        assert (number[:, columns].max() > 0.5) == has_neighbour
        assert alone[:, columns].max() == 0


def test_a_shift_moves_the_number_by_whole_pixels():
    shifted = ink([5], 0, shift=(2, -1))
    np.testing.assert_allclose(shifted, np.roll(ink([5], 0), (-1, 2), axis=(0, 1)), atol=0.01)


def test_a_quarter_turn_is_one_clockwise():
    turned = ink([4], 0, angle=np.pi / 2)
    np.testing.assert_allclose(turned, np.rot90(ink([4], 0), -1), atol=0.02)


def test_the_height_is_in_pixels():
    for height in (15, 26):
        rows = np.nonzero(ink([0], 0, height=height).max(axis=1) > 0.5)[0]
        assert np.ptp(rows) + 1 == pytest.approx(height, abs=1)


@pytest.mark.parametrize("font", _FONTS)
def test_at_the_extremes_most_of_the_labelled_digit_is_in_the_image(font):
    for digit, angle, shift in itertools.product(range(10), (-20, 20), ((-2, -2), (2, 2), (-2, 2))):
        # Half as large, the image is the inner half.
        half = ink([digit], 0, font, height=13, angle=np.deg2rad(angle), shift=np.array(shift) / 2)
        assert half[8:24, 8:24].sum() > 0.85 * half.sum()


def test_the_full_configuration_has_the_published_sizes_and_draws_lazily(tmp_path):
    builder: Any = SyntheticDigits(data_dir=tmp_path, config="full")
    assert synthetic_digits._SPLITS["full"] == {"train": 479_400, "test": 9_553}
    splits = builder._split_generators(None)
    (key, example), image = next(iter(splits["test"])), drawn(1, 1)[0][0]
    assert key == 0
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(example["image"]))), image)


def test_small_is_the_default(tmp_path):
    assert SyntheticDigits(data_dir=tmp_path).builder_config.name == "small"
    assert synthetic_digits._SPLITS["small"] == {"train": 20_000, "test": 4_000}


def test_blending_follows_the_formula(monkeypatch):
    shades = Image.fromarray(np.full((64, 64), 51, "uint8"))  # a fifth of 255
    monkeypatch.setattr(synthetic_digits, "_print", lambda *args, **kwargs: shades)
    monkeypatch.setattr(synthetic_digits, "_two_colours", lambda rng: [(255, 0, 100), (0, 100, 0)])
    image, _ = draw_number(np.random.default_rng(0))
    np.testing.assert_array_equal(image, np.broadcast_to([51, 80, 20], (32, 32, 3)))
