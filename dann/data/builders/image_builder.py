"""Base class and functions of the builders of images."""

import io
import pathlib
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from PIL import Image


class ImageBuilder(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """Base class of TFDS builders of labeled images of one size, by default of ten digits.

    Subclasses set `SHAPE`, the shape of an image, and `RAW`, the names of the folders of raw files,
    if any. They override `read_examples(split, dl_manager)`, which yields the images, uint8 of that
    shape, and the labels of one of `SPLITS`.
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version."}
    SHAPE: tuple[int, int, int]
    CLASS_NAMES: tuple[str, ...] = tuple("0123456789")
    RAW: tuple[str, ...] = ()
    SPLITS: tuple[str, ...] = ("train", "test")

    def _info(self) -> tfds.core.DatasetInfo:
        features = {
            "image": tfds.features.Image(shape=self.SHAPE),
            "label": tfds.features.ClassLabel(names=self.CLASS_NAMES),
        }
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict(features),
            supervised_keys=("image", "label"),
        )

    def read_examples(self, split: str, dl_manager: Any) -> Iterable[tuple[np.ndarray, Any]]:
        raise NotImplementedError

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict:
        return {
            split: self._generate_examples(self.read_examples(split, dl_manager))
            for split in self.SPLITS
        }

    def _generate_examples(self, examples: Iterable[tuple[np.ndarray, Any]]) -> Any:
        for key, (image, label) in enumerate(examples):
            yield key, {"image": png(image), "label": label}


def raw_folder(dl_manager: tfds.download.DownloadManager, name: str) -> pathlib.Path | None:
    """Returns a folder of raw files, or `None` if it is missing and files must be downloaded."""
    try:
        folder = pathlib.Path(dl_manager.manual_dir) / name
    except AssertionError:  # raised by TFDS without a manual folder
        return None
    return folder if folder.is_dir() else None


def png(image: np.ndarray) -> bytes:
    """Encodes an image as PNG without TensorFlow, which TFDS's own encoder needs.

    Args:
        image: uint8 `(height, width, channels)`, 1 or 3 channels.
    """
    # Photos contain few repetitions, so zlib's slow search for them is switched off.
    file = io.BytesIO()
    pixels = image[..., 0] if image.shape[-1] == 1 else image
    Image.fromarray(pixels).save(file, "PNG", compress_level=1, compress_type=zlib.Z_RLE)
    return file.getvalue()
