"""The handwritten digits that scikit-learn ships, as they are."""

from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from sklearn.datasets import load_digits

from dann.data.citations import ALPAYDIN_1998
from dann.data.digit_images import digit_images

_TRAIN = 1438


class Digits(tfds.core.GeneratorBasedBuilder):
    """TFDS builder of scikit-learn's 1,797 digits, 8x8 grey, white on black, with no download.

    Ink from 0 to 16 becomes 0 to 255. A seeded fifth of the digits is the test split.
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version."}

    def _info(self) -> tfds.core.DatasetInfo:
        return self.dataset_info_from_configs(
            description="Handwritten digits at a very low resolution.",
            **digit_images(8, 8, 1),
            homepage="https://scikit-learn.org/stable/datasets/toy_dataset.html",
            citation=ALPAYDIN_1998,
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict:
        data: Any = load_digits()
        # Of the 17 shades only the middle one, 8, falls halfway between two bytes: up.
        images = ((255 * data.images.astype(np.int64) + 8) // 16).astype(np.uint8)
        order = np.random.default_rng(0).permutation(len(images))
        return {
            "train": self._generate_examples(images, data.target, order[:_TRAIN]),
            "test": self._generate_examples(images, data.target, order[_TRAIN:]),
        }

    def _generate_examples(self, images, labels, chosen):
        for index in chosen.tolist():
            yield index, {"image": images[index, :, :, np.newaxis], "label": labels[index]}
