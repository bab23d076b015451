import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dann.data.builders import synthetic_digits
from dann.data.builders.synthetic_digits import (
    _FONTS,
    SyntheticDigits,
    _print,
    _two_colours,
    draw_number,
)


def ink(digits, middle, font="DejaVuSans", **where):
    """Ink in [0, 1] at the size of an image."""
    return np.asarray(_print(digits, middle, font, **where).reduce(2)) / 255


def drawn(seed, count):
    examples = [draw_number(np.random.default_rng((seed, index))) for index in range(count)]
    images, labels = zip(*examples, strict=True)
    return np.stack(images), np.array(labels)


@pytest.mark.parametrize(("digits", "middle"), [([1, 7], 1), ([7, 2], 0), ([3, 7, 3], 1)])
def test_the_label_is_in_the_middle_and_others_beside_it(digits, middle):
    number, alone = ink(digits, middle, gap=0.1), ink([7], 0, gap=0.1)
    np.testing.assert_array_equal(number[:, 10:22], alone[:, 10:22])
    for side, columns in ((-1, slice(0, 6)), (1, slice(26, 32))):
        has_neighbour = 0 <= middle + side < len(digits)
        assert (number[:, columns].max() > 0.5) == has_neighbour
        assert alone[:, columns].max() == 0


def test_blending_follows_the_formula(monkeypatch):
    shades = Image.fromarray(np.full((64, 64), 51, "uint8"))  # a fifth of 255
    monkeypatch.setattr(synthetic_digits, "_print", lambda *args, **kwargs: shades)
    monkeypatch.setattr(synthetic_digits, "_two_colours", lambda rng: [(255, 0, 100), (0, 100, 0)])
    image, _ = draw_number(np.random.default_rng(0))
    np.testing.assert_array_equal(image, np.broadcast_to([51, 80, 20], (32, 32, 3)))


def test_where_ink_is_drawn():
    five, four = ink([5], 0), ink([4], 0)
    shifted, turned = ink([5], 0, shift=(2, -1)), ink([4], 0, angle=np.pi / 2)
    np.testing.assert_allclose(shifted, np.roll(five, (-1, 2), axis=(0, 1)), atol=0.01)
    np.testing.assert_allclose(turned, np.rot90(four, -1), atol=0.02)
    for height in (15, 26):
        rows = np.nonzero(ink([0], 0, height=height).max(axis=1) > 0.5)[0]
        assert np.ptp(rows) + 1 == pytest.approx(height, abs=1)


@pytest.mark.parametrize("font", _FONTS)
def test_every_font_has_ten_different_digits_in_the_middle(font):
    digits = [ink([digit], 0, font, height=20) for digit in range(10)]
    assert len({digit.tobytes() for digit in digits}) == 10
    rows, columns = np.nonzero(np.maximum.reduce(digits) > 0.5)
    assert abs(rows.min() + rows.max() - 31) <= 6  # an old-style 4 hangs below the line
    assert abs(columns.min() + columns.max() - 31) <= 4


def test_images_are_of_two_colours_and_those_between():
    images, labels = drawn(0, 1000)
    assert (images.shape, images.dtype) == ((1000, 32, 32, 3), np.uint8)
    assert np.bincount(labels, minlength=10).min() > 60  # 100 expected, 10 the deviation
    for image in images[:100].reshape(100, -1, 3).astype(float):
        _, scales, _ = np.linalg.svd(image - image.mean(axis=0), full_matrices=False)
        # On a line but for rounding, at most one unit a channel.
        assert scales[1] < np.sqrt(3 * len(image))
    for rng in map(np.random.default_rng, range(200)):
        stroke, background = _two_colours(rng)
        assert abs((np.array(stroke) - background) @ [0.299, 0.587, 0.114]) >= 80


def test_an_image_is_a_matter_of_its_split_and_number_and_drawn_lazily(tmp_path):
    for config, sizes in ((None, (20_000, 4_000)), ("full", (479_400, 9_553))):
        builder: Any = SyntheticDigits(data_dir=tmp_path, config=config)
        name = builder.builder_config.name
        assert tuple(synthetic_digits._SPLITS[name].values()) == sizes
        splits = builder._split_generators(None)
        for seed, split in enumerate(("train", "test")):
            key, example = next(iter(splits[split]))
            image = np.asarray(Image.open(io.BytesIO(example["image"])))
            np.testing.assert_array_equal(image, drawn(seed, 1)[0][0])
            assert key == 0
    assert (drawn(0, 20)[0] != drawn(1, 20)[0]).any(axis=(1, 2, 3)).all()
