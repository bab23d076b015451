"""Handwritten digits on black and over photos, from data that scikit-learn contains."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from scipy import ndimage
from sklearn.datasets import load_digits, load_sample_images

from dann.data.builders.image_builder import ImageBuilder

_SIZE = 16
_BRIGHTNESS = 0.6
_TRAIN = 8000
_PARTS = {"black": 0, "photo": 1, "test": 2}


class ChalkDigits(ImageBuilder):
    """TFDS builder of 16x16 color images of handwritten digits, with no download.

    The configuration `black` has digits on black. In the configuration `photo`, digits look like
    chalk over crops of two photos, `ink * 255 + (1 - ink) * brightness * crop`, where `ink` in
    [0, 1] is the digit and `brightness` is 0.6.

    The 1,797 digits of scikit-learn are split into three random parts, for training in `black`, for
    training in `photo`, and for both test splits. A train split contains 8,000 draws, each slightly
    rotated, scaled, sheared and shifted; a test split contains every digit once, unchanged. Train
    crops come from the left halves of the photos, test crops from the right halves. The draws are
    seeded.
    """

    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(name="black", description="Digits on black."),
        tfds.core.BuilderConfig(name="photo", description="Digits over photos."),
    ]

    SHAPE = (_SIZE, _SIZE, 3)

    def read_examples(self, split, dl_manager):
        style, is_train = self.builder_config.name, split == "train"
        rng = np.random.default_rng(2 * _PARTS[style] + (not is_train))
        digits, labels = _load_part(style if is_train else "test")
        rows = rng.integers(len(digits), size=_TRAIN) if is_train else np.arange(len(digits))
        ink = [_enlarge(digits[row], rng, jitter=is_train) for row in rows]
        black = itertools.repeat(np.zeros((_SIZE, _SIZE, 3)))
        crops = _draw_crops(rng, right=not is_train) if style == "photo" else black
        for row, shades, crop in zip(rows, ink, crops, strict=False):
            shades = shades[:, :, np.newaxis]
            image = 255 * shades + (1 - shades) * _BRIGHTNESS * crop
            yield np.rint(image).astype(np.uint8), labels[row]


def _load_part(part: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns one of three disjoint parts of scikit-learn's digits, in [0, 1] `(n, 8, 8)`."""
    data: Any = load_digits()
    order = np.random.default_rng(0).permutation(len(data.images))
    rows = np.array_split(order, 3)[_PARTS[part]]
    return data.images[rows] / 16, data.target[rows]


def _enlarge(digit: np.ndarray, rng: np.random.Generator, jitter: bool) -> np.ndarray:
    """Returns a digit at 16x16, transformed by a small random affine map if `jitter`."""
    angle, shear, shift, scale = 0.0, 0.0, np.zeros(2), 1.0
    if jitter:
        angle = np.deg2rad(rng.uniform(-8, 8))
        shear = rng.uniform(-0.1, 0.1)
        shift = rng.uniform(-0.32, 0.32, size=2)  # in pixels of the 8x8 original
        scale = rng.uniform(0.9, 1.05)
    rotation = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    matrix = rotation @ np.array([[1.0, 0.0], [shear, 1.0]]) / scale * len(digit) / _SIZE
    # `affine_transform` maps pixels of the result to pixels of the digit, hence `/ scale` above.
    middle = np.full(2, (len(digit) - 1) / 2)
    offset: Any = middle + shift - matrix @ np.full(2, (_SIZE - 1) / 2)
    return ndimage.affine_transform(
        digit, matrix, offset, output_shape=(_SIZE, _SIZE), order=1, mode="grid-constant"
    )


def _draw_crops(rng: np.random.Generator, right: bool) -> Iterator[np.ndarray]:
    """Yields random crops of one half of the two photos, at a third of their size."""
    halves = []
    for photo in load_sample_images().images:
        rows, columns = (side // 3 for side in photo.shape[:2])
        # The mean of 3x3 blocks, (rows, 3, columns, 3, channels), reduces the size to a third.
        blocks = photo[: 3 * rows, : 3 * columns].reshape(rows, 3, columns, 3, 3)
        small = blocks.mean(axis=(1, 3))
        halves.append(small[:, columns // 2 :] if right else small[:, : columns // 2])
    while True:
        half = halves[rng.integers(len(halves))]
        row, column = (rng.integers(side - _SIZE + 1) for side in half.shape[:2])
        crop = half[row : row + _SIZE, column : column + _SIZE]
        yield crop[:, ::-1] if rng.random() < 0.5 else crop
