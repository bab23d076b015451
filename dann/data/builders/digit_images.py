"""What the builders of digit images share."""

import io
import itertools
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from PIL import Image

ALPAYDIN_1998 = "Alpaydin, Kaynak, 1998, Optical Recognition of Handwritten Digits, UCI"
GANIN_2016 = "Ganin et al., 2016, Domain-Adversarial Training of Neural Networks, JMLR 17(59)"


class DigitImages(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """A TFDS builder of images of ten digits, which says what they are and where they come from."""

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version."}
    SHAPE: tuple[int, int, int]
    DESCRIPTION: str
    HOMEPAGE: str
    CITATION: str

    def _info(self) -> tfds.core.DatasetInfo:
        return self.dataset_info_from_configs(
            description=self.DESCRIPTION,
            homepage=self.HOMEPAGE,
            citation=self.CITATION,
            **digit_images(*self.SHAPE),
        )

    def _generate_examples(
        self, examples: Iterable[tuple[np.ndarray, Any]], keys: Iterable[int] | None = None
    ) -> Any:
        for key, (image, label) in zip(keys or itertools.count(), examples, strict=False):
            yield key, {"image": png(image), "label": label}


def digit_images(height: int, width: int, channels: int) -> dict:
    """Returns the features of images of ten digits, for a builder's `_info`."""
    features = {
        "image": tfds.features.Image(shape=(height, width, channels)),
        "label": tfds.features.ClassLabel(num_classes=10),
    }
    return {
        "features": tfds.features.FeaturesDict(features),
        "supervised_keys": ("image", "label"),
    }


def png(image: np.ndarray) -> bytes:
    """Returns an image as a PNG file, which TFDS takes as it is; its own encoder is TensorFlow's.

    Args:
        image: uint8 `(height, width, channels)`, 1 or 3 channels.
    """
    # Photos hardly repeat themselves, so zlib's long search for repetitions finds nothing.
    file = io.BytesIO()
    pixels = image[..., 0] if image.shape[-1] == 1 else image
    Image.fromarray(pixels).save(file, "PNG", compress_level=1, compress_type=zlib.Z_RLE)
    return file.getvalue()
