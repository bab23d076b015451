"""The handwritten digits that scikit-learn ships, unchanged."""

from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from sklearn.datasets import load_digits

from dann.data.builders.digit_images import DigitImages


def thirds() -> list[np.ndarray]:
    """Returns the indices of three disjoint parts of scikit-learn's 1,797 digits, 599 each.

    Every data set of these digits tests on the last part, so that none trains on another's test
    digits.
    """
    data: Any = load_digits()
    order = np.random.default_rng(0).permutation(len(data.images))
    return np.array_split(order, 3)


class Digits(DigitImages):
    """TFDS builder of scikit-learn's 1,797 digits, 8x8 grey, white on black, with no download.

    Ink from 0 to 16 becomes 0 to 255. A seeded third of the digits is the test split, the same that
    `ChalkDigits` tests on.

    Reference:
        - Alpaydin, Kaynak, 1998, Optical Recognition of Handwritten Digits, UCI.
    """

    VERSION = tfds.core.Version("2.0.0")
    RELEASE_NOTES = {
        "1.0.0": "First version.",
        "2.0.0": "The test split has the digits of ChalkDigits' test split.",
    }

    SHAPE = (8, 8, 1)

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict:
        data: Any = load_digits()
        # Of the 17 shades only the middle one, 8, falls halfway between two bytes; it goes up.
        images = ((255 * data.images.astype(np.int64) + 8) // 16).astype(np.uint8)
        *train, test = thirds()
        return {
            split: self._generate_examples(
                zip(images[rows, :, :, np.newaxis], data.target[rows], strict=True), rows.tolist()
            )
            for split, rows in (("train", np.concatenate(train)), ("test", test))
        }
